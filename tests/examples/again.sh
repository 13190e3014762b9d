#!/bin/sh
# again.sh LAUNCH-DIRECTORY: the scripts that start a party again while it ends with 75 pause before it, longer each time
# that it comes soon. mpirun, srun, sleep and date are stand-ins: no time passes.
set -eu
scripts=$(cd "$1" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
mkdir bin
cat >bin/party <<'END'
#!/bin/sh
# Ends with 75 six times, then with 3; the fifth one ran for two minutes.
n=$(($(cat starts 2>/dev/null || echo 0) + 1))
echo $n >starts
[ $n -ne 5 ] || echo 120 >clock
[ $n -gt 6 ] && exit 3
exit 75
END
printf '#!/bin/sh\ncat clock\n' >bin/date
# shellcheck disable=SC2016 # for the stand-in
printf '#!/bin/sh\necho "$1" >>slept\n' >bin/sleep
chmod +x bin/*
cp bin/party bin/mpirun
cp bin/party bin/srun
PATH=$place/bin:$PATH
for script in 'mpirun.sh 8 x.json' 'slurm.sbatch x.json'; do
    rm -f starts slept
    echo 0 >clock
    status=0
    # shellcheck disable=SC2086 # words
    sh "$scripts"/$script || status=$?
    [ $status -eq 3 ] || { echo "$script: ended with $status, not as its processes did"; exit 1; }
    [ "$(tr '\n' ' ' <slept)" = '0 1 3 7 0 1 ' ] || { echo "$script: slept"; cat slept; exit 1; }
done
