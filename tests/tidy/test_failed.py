#!/usr/bin/env python3
"""test_failed.py FAILED: what scripts/failed makes of logs of meson's tests, and that scripts/test ends with it."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

FAILED = os.path.abspath(sys.argv.pop(1))


def log(directory, build, tests, more=''):
    path = os.path.join(directory, build, 'meson-logs')
    os.makedirs(path)
    with open(os.path.join(path, 'testlog.json'), 'w', encoding='utf-8') as f:
        for name, result, code, out, err, *seconds in tests:
            f.write(json.dumps({'name': name, 'result': result, 'returncode': code, 'duration': (seconds or [3.2])[0], 'stdout': out,
                                **({'stderr': err} if err else {})}) + '\n')
        f.write(more)


class Failed(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def said(self, *words):
        got = subprocess.run([sys.executable, FAILED, *words], cwd=self.directory.name, check=False, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return got.returncode, got.stdout, got.stderr

    def test_names_come_last(self):
        many = ''.join(f'line {i}\n' for i in range(50))
        log(self.directory.name, 'build', [('uvcc:unit / good', 'OK', 0, 'fine\n', ''), ('uvcc / bad', 'FAIL', 3, many, 'oh no\n'),
                                           ('uvcc / skipped', 'SKIP', 77, '', ''), ('uvcc / known', 'EXPECTEDFAIL', 1, '', '')])
        log(self.directory.name, 'build-san', [('uvcc / gone', 'FAIL', -11, '', ''), ('uvcc / slow', 'TIMEOUT', -15, 'a\n', ''),
                                               ('uvcc / odd', 'ERROR', 99, 'a\udc80b\n', ''),
                                               ('uvcc / better', 'UNEXPECTEDPASS', 0, '', '')], '{"name": "half a li')
        status, out, err = self.said('build', 'build-none', 'build-san')
        self.assertEqual((status, err), (0, ''))
        self.assertEqual(out.splitlines()[-5:],
                         ['build: uvcc / bad: exit status 3', 'build-san: uvcc / gone: killed by SIGSEGV',
                          'build-san: uvcc / slow: timeout after 3 s', 'build-san: uvcc / odd: exit status 99',
                          'build-san: uvcc / better: passed, and was to fail'])
        self.assertNotIn('good', out)
        said = out.split('-- build: uvcc / bad\n')[1].split('\n\n')[0].splitlines()
        self.assertEqual(said, ['[21 lines more]', *(f'line {i}' for i in range(21, 50)), 'oh no'])
        self.assertIn('-- build-san: uvcc / gone\n(no output)\n', out)
        self.assertIn('a\\udc80b', out)
        self.assertIn('[46 lines more]\nline 46\n', self.said('--lines', '5', 'build')[1])

        self.assertEqual(self.said('--names', 'build-san')[1].split(), ['gone', 'slow', 'odd', 'better'])

    def test_nothing_failed(self):
        log(self.directory.name, 'build', [('uvcc / good', 'OK', 0, 'fine\n', '')])
        self.assertEqual(self.said('build'), (0, '', ''))

    def test_slowest(self):
        log(self.directory.name, 'build', [('uvcc:unit / a', 'OK', 0, '', '', 2.04), ('uvcc:unit / b', 'OK', 0, '', '', 100.5)], '{"na')
        log(self.directory.name, 'build-san', [('uvcc / a', 'FAIL', 1, 'why\n', '', 11.0), ('uvcc / c', 'SKIP', 77, '', '', 0.01)])
        self.assertEqual(self.said('--slowest', '3', 'build', 'build-none', 'build-san'),
                         (0, '   100.5 s  build: b\n    11.0 s  build-san: a\n     2.0 s  build: a\n', ''))

    def test_wrong_use(self):
        for words in ((), ('--lines', '0', 'build'), ('--slowest', '0', 'build'), ('--slowest',), ('--many', 'build')):
            self.assertEqual(self.said(*words)[0], 2)

    def test_last_lines_of_scripts_test(self):
        """finish() of scripts/test: times, outputs, names, what did not build, the count."""
        log(self.directory.name, 'build', [('uvcc / bad', 'FAIL', 3, 'why\n', '')])
        script = os.path.join(os.path.dirname(FAILED), 'test')
        with open(script, encoding='utf-8') as f:
            text = f.read()
        body = text[text.index('finish() {'):text.index('# count DIR')]
        os.symlink(os.path.dirname(FAILED), os.path.join(self.directory.name, 'scripts'))
        plant = ("passed=7; failed=2; skipped=1; root=.; builds='build build-san'\n"
                 "times='build: built in 5 s, tests in 7 s\n'\n"
                 f"unbuilt='build-san: the build failed\n'; unsteady='build: some: failed, passed\n'\n{body}\nfinish\n")
        got = subprocess.run(['sh', '-c', plant], cwd=self.directory.name, check=False, text=True, stdout=subprocess.PIPE)
        self.assertEqual(got.returncode, 1)
        self.assertEqual(got.stdout.splitlines()[:3], ['== time', 'build: built in 5 s, tests in 7 s', '     3.2 s  build: bad'])
        self.assertEqual(got.stdout.splitlines()[-6:], ['why', '', 'build: uvcc / bad: exit status 3',
                                                        'build-san: the build failed', 'build: some: failed, passed',
                                                        '7 passed, 2 failed, 1 skipped'])

    def test_once_more_alone(self):
        """again() of scripts/test: what failed runs alone, and what passes then counts as passed."""
        log(self.directory.name, 'build', [('uvcc:a / flaky', 'FAIL', 3, '', ''), ('uvcc / bad', 'FAIL', 3, '', '')])
        with open(os.path.join(os.path.dirname(FAILED), 'test'), encoding='utf-8') as f:
            text = f.read()
        body = text[text.index('again() {'):text.index('# suite NAME DIR')]
        plant = ('set -u; passed=7; failed=2; unsteady=; launch=; root=' + os.path.dirname(os.path.dirname(FAILED)) +
                 '\nmeson() { echo "$@" >>calls; case "$*" in *flaky) ;; *) return 1 ;; esac; }\n' + body +
                 '\nagain build --suite x\necho "$passed $failed $unsteady"\n')
        got = subprocess.run(['sh', '-c', plant], cwd=self.directory.name, check=False, text=True, stdout=subprocess.PIPE)
        self.assertEqual(got.stdout.strip().splitlines()[-1], '8 1 build: flaky: failed among others, passed alone')
        with open(os.path.join(self.directory.name, 'calls'), encoding='utf-8') as f:
            self.assertEqual([line.split()[-3:] for line in f], [['--suite', 'x', 'flaky'], ['--suite', 'x', 'bad']])

    def test_builds_what_tests_need(self):
        """build() of scripts/test: what the tests of a suite need and no more, as meson.build says now."""
        with open(os.path.join(os.path.dirname(FAILED), 'test'), encoding='utf-8') as f:
            text = f.read()
        body = text[text.index('build() {'):text.index('# suite NAME DIR')]
        run = {'cwd': self.directory.name, 'check': False, 'text': True, 'stdout': subprocess.PIPE, 'stderr': subprocess.STDOUT}

        def describe(*names):
            with open(os.path.join(self.directory.name, 'meson.build'), 'w', encoding='utf-8') as f:
                f.write("project('p')\ntrue_program = find_program('true')\n")
                for name in (*names, 'other'):
                    f.write(f"{name} = custom_target('{name}', output: '{name}', command: ['touch', '@OUTPUT@'], build_by_default: true)\n")
                for name in names:
                    f.write(f"test('{name}', true_program, depends: {name}, suite: ['unit', 'of_{name}'])\n")

        def built(what):
            got = subprocess.run(['sh', '-c', f'set -u\n{body}\nbuild b {what}'], **run)
            self.assertEqual(got.returncode, 0, got.stdout)
            return sorted(name for name in ('a', 'b', 'c', 'other') if os.path.exists(os.path.join(self.directory.name, 'b', name)))

        describe('a', 'b')
        got = subprocess.run(['meson', 'setup', 'b'], **run)
        self.assertEqual(got.returncode, 0, got.stdout)
        self.assertEqual(built('of_a'), ['a'])
        describe('a', 'b', 'c')
        self.assertEqual(built('tests'), ['a', 'b', 'c'])
        describe('a', 'b')
        self.assertEqual(built('tests')[:2], ['a', 'b'])
        self.assertEqual(built('all')[-1], 'other')


if __name__ == '__main__':
    unittest.main()
