"""Texts to tokens: files that the C reader takes, models of bytes, and tokenizers where the package is there."""
import json
import os
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
import uvcc
from uvcc import tokens
from uvcc.tokens import Tokenizer, read_safetensors, write_safetensors

try:
    import tokenizers
except ImportError:
    tokenizers = None

MODELS = Path(sys.argv.pop(1)).resolve()
COMMAND = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""


class Case(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.dir = Path(holder.name)

    def checkpoint(self, **config):
        (self.dir / "config.json").write_text(json.dumps(config))
        return self.dir

    def refused(self, call, text):
        with self.assertRaises(uvcc.Error) as caught:
            call()
        self.assertIn(text, caught.exception.detail)


class Files(Case):
    def test_of_another_writer(self):
        """What the library safetensors wrote is read, and what is written here reads the same."""
        for path in sorted(MODELS.glob("*/expected.safetensors")):
            have = read_safetensors(path)
            self.assertIn("input_ids", have)
            write_safetensors(self.dir / "again", have)
            again = read_safetensors(self.dir / "again")
            self.assertEqual(have.keys(), again.keys())
            for name, value in have.items():
                self.assertEqual(value.dtype, again[name].dtype)
                np.testing.assert_array_equal(value, again[name])

    def test_mode_and_nothing_half(self):
        write_safetensors(self.dir / "t", {"input_ids": np.arange(6).reshape(2, 3)})
        self.assertEqual(stat.S_IMODE(os.stat(self.dir / "t").st_mode), 0o600)
        self.refused(lambda: write_safetensors(self.dir / "t", {"z": np.zeros(2, complex)}), "complex")
        self.assertEqual(read_safetensors(self.dir / "t")["input_ids"].shape, (2, 3))
        self.assertEqual(os.listdir(self.dir), ["t"])

    def test_hostile(self):
        write_safetensors(self.dir / "t", {"input_ids": np.arange(6).reshape(2, 3)})
        good = (self.dir / "t").read_bytes()
        for n in range(len(good)):
            (self.dir / "t").write_bytes(good[:n])
            self.refused(lambda: read_safetensors(self.dir / "t"), "no safetensors")
        for bad in (b"[]", b'{"a":1}', b'{"a":{"dtype":"I64","shape":[9],"data_offsets":[0,8]}}',
                    b'{"a":{"dtype":"I64","shape":[1],"data_offsets":[-8,0]}}',
                    b'{"a":{"dtype":"I64","shape":[-1],"data_offsets":[0,8]}}', b"\xff"):
            (self.dir / "t").write_bytes(len(bad).to_bytes(8, "little") + bad + bytes(8))
            self.refused(lambda: read_safetensors(self.dir / "t"), "no safetensors")


class Bytes(Case):
    def test_batch(self):
        t = Tokenizer(self.checkpoint(vocab_size=256, n_positions=8))
        batch = t.encode(["abc", "\u00e9"])
        np.testing.assert_array_equal(batch.ids, [[97, 98, 99], [0xc3, 0xa9, 0]])
        np.testing.assert_array_equal(batch.mask, [[1, 1, 1], [1, 1, 0]])
        self.assertIsNone(batch.types)
        self.assertIsNone(t.encode(["abc", "def"]).mask)
        self.assertEqual(t.encode(["abc"], tokens=5).ids.shape, (1, 5))
        self.assertEqual(t.decode([0xc3, 0xa9]), "\u00e9")

    def test_refusals(self):
        t = Tokenizer(self.checkpoint(vocab_size=256, n_positions=8))
        self.refused(lambda: t.encode(["123456789"]), "9 tokens, 8 are possible")
        self.refused(lambda: t.encode(["1234"], tokens=3), "4 tokens, 3 are possible")
        self.refused(lambda: t.encode(["a", ""]), "text 2 has no token")
        self.refused(lambda: t.encode([]), "no text")
        self.refused(lambda: t.encode(["a"], ["b"]), "pairs")
        self.refused(lambda: t.decode([256]), "256")
        self.refused(lambda: Tokenizer(self.checkpoint(vocab_size=300)), "tokenizer.json")
        (self.dir / "config.json").unlink()
        self.refused(lambda: Tokenizer(self.dir), "config.json")


class Command(Case):
    def run_it(self, *args, **more):
        return subprocess.run([sys.executable, "-m", "uvcc.tokens", *map(str, args)], capture_output=True, text=True,
                              check=False, **more)

    def test_encode_and_decode(self):
        self.checkpoint(vocab_size=256)
        out = self.dir / "tokens"
        done = self.run_it("encode", self.dir, "--text", "ab", "--file", "-", "--out", out, input="cd\n\n")
        self.assertEqual((done.returncode, done.stdout), (0, f"{out}: 2 x 2 tokens\n"), done.stderr)
        np.testing.assert_array_equal(read_safetensors(out)["input_ids"], [[97, 98], [99, 100]])
        self.assertEqual(self.run_it("decode", self.dir, "--ids", "97,98").stdout, "ab\n")

    def test_wrong(self):
        self.checkpoint(vocab_size=300)
        for args, what in ((("encode", self.dir, "--text", "a", "--out", self.dir / "t"), "tokenizer.json"),
                           (("decode", self.dir / "none", "--ids", "1"), "config.json"),
                           (("encode", self.dir), "--out")):
            done = self.run_it(*args)
            self.assertEqual(done.returncode, 2)
            self.assertIn(what, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    @unittest.skipUnless(COMMAND, "the uvcc command is not built")
    def test_the_command_takes_it(self):
        """`uvcc model check` reads what is written here; a mask and types too."""
        batch = tokens.Tokens(np.array([[1, 2, 3, 4], [5, 6, 7, 0]]), np.array([[1] * 4, [1, 1, 1, 0]]),
                              np.array([[0, 0, 1, 1], [0, 1, 1, 0]]))
        batch.write(self.dir / "t")
        done = subprocess.run([COMMAND, "model", "check", str(MODELS / "bert"), "--input", str(self.dir / "t")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        batch = tokens.Tokens(np.array([[1, 2, 97]]))
        batch.write(self.dir / "t")
        done = subprocess.run([COMMAND, "model", "check", str(MODELS / "bert"), "--input", str(self.dir / "t")],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("token 97", done.stderr)


@unittest.skipUnless(tokenizers, "there is no package tokenizers (PyPI)")
class Vocabularies(Case):
    WORDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "three": 4, "parties": 5, "compute": 6}

    def test_tokenizer_json(self):
        t = tokenizers.Tokenizer(tokenizers.models.WordLevel(self.WORDS, unk_token="[UNK]"))
        t.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        t.enable_padding(length=64)  # what a file says of lengths is left out
        t.enable_truncation(2)
        t.save(str(self.checkpoint(vocab_size=7) / "tokenizer.json"))
        batch = Tokenizer(self.dir).encode(["three parties compute", "nobody"])
        np.testing.assert_array_equal(batch.ids, [[4, 5, 6], [1, 0, 0]])
        np.testing.assert_array_equal(batch.mask, [[1, 1, 1], [1, 0, 0]])
        self.assertEqual(Tokenizer(self.dir).decode([4, 6]), "three compute")

    def test_vocab_txt(self):
        self.checkpoint(vocab_size=7, type_vocab_size=2)
        (self.dir / "vocab.txt").write_text("\n".join(self.WORDS) + "\n")
        batch = Tokenizer(self.dir).encode(["Three parties"], ["compute"])
        np.testing.assert_array_equal(batch.ids, [[2, 4, 5, 3, 6, 3]])
        np.testing.assert_array_equal(batch.types, [[0, 0, 0, 0, 1, 1]])

    def test_too_many_tokens(self):
        self.test_vocab_txt()
        self.checkpoint(vocab_size=6)
        self.refused(lambda: Tokenizer(self.dir).encode(["compute"]), "token 6")

    def test_broken(self):
        self.checkpoint(vocab_size=7)
        (self.dir / "tokenizer.json").write_text("{}")
        self.refused(lambda: Tokenizer(self.dir), "tokenizer.json")


if __name__ == "__main__":
    unittest.main()
