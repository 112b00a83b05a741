#!/bin/bash
# make install into a root of its own: the program finds its files from any folder, each option of each command is in
# its man page and in three shells' completions, a program of the library's is built by pkg-config, and make uninstall
# leaves nothing. The version is the same wherever it is written. WHEEL=1: a wheel instead, which pip installs into a
# Debian without compilers (debootstrap); the program there, with ranks, and a recorded run that it checks. DEB=1: the
# same of a .deb. IMAGE=1: podman builds Containerfile's image on such a Debian, and the commands of its head run there.
# SPACK=spack: the recipe for Spack, by a stand-in for Spack's classes, and by that command if it is there. Run from the
# project's root.
set -u -o pipefail
B=${BUILD:-build}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
report() { if [ "$1" = 0 ]; then echo "ok install: $2"; else
    echo "not ok install: $2"; sed 's/^/# /' "$work/said"; fi; }
installs() { env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make "$@" BUILD_NAME="$B" DESTDIR="$work/root" PREFIX=/usr; }

# In a Debian with nothing else of this machine: COMMANDS
in_debian() {
    bwrap --bind "$work/debian" / --proc /proc --dev /dev --tmpfs /dev/shm --chdir /root --clearenv \
        --setenv PATH /wheel/bin:/usr/sbin:/usr/bin:/sbin:/bin --setenv HOME /root bash -c "$1" >"$work/said" 2>&1
}
make_debian() { # PACKAGES, by commas
    debootstrap --variant=minbase --include="$1" bookworm "$work/debian" >"$work/said" 2>&1 && in_debian true && return
    echo "skip install: no other Debian, by debootstrap and bubblewrap: $(tail -1 "$work/said")"
    return 1
}
try_deb() {
    local needs
    tools/package deb "$work/debs" >"$work/said" 2>&1
    report $? "a .deb is built: $(du -h "$work"/debs/*.deb | cut -f1)"
    needs=$(dpkg-deb -f "$work"/debs/*.deb Depends | sed 's/([^)]*)//g; s/|[^,]*//g; s/ //g')
    make_debian "$needs" || return
    cp "$work"/debs/*.deb "$work/debian/root"
    in_debian 'dpkg -i *.deb && ! command -v cc && [ "$(command -v trivium)" = /usr/bin/trivium ]'
    report $? "dpkg installs it where no compiler is; it depends on $needs"
    try_program 'trivium oracle'
    in_debian 'dpkg -P trivium
        ! find / -xdev -name "*trivium*" ! -path "/root/*" ! -path "/tmp/*" ! -path "/proc/*" | grep .'
    report $? "dpkg -P leaves nothing"
}
try_wheel() {
    tools/package wheel "$work/wheels" >"$work/said" 2>&1
    report $? "a wheel is built"
    make_debian python3-venv || return
    cp "$work"/wheels/*.whl "$work/debian/root"
    in_debian 'python3 -m venv /wheel && pip install --no-index *.whl && ! command -v cc && ! command -v mpirun'
    report $? "pip installs it where no compiler is: $(du -sh "$work/debian/wheel/lib" | cut -f1)"
    try_program 'python -m trivium.oracle'
    in_debian 'pip uninstall -y trivium && ! find /wheel -name "*trivium*" | grep .'
    report $? "pip uninstall leaves nothing"
}
# Steps in a chroot: a container seldom may make containers. On a Debian of debootstrap, as no registry is asked
try_image() {
    command -v podman >/dev/null || { echo "skip install: there is no podman"; return; }
    make_debian ca-certificates || return
    local in_store=(podman --root "$work/store" --runroot "$work/run")
    local build=("${in_store[@]}" build --isolation chroot --network host --pull=never)
    tar -C "$work/debian" -c . | "${in_store[@]}" import -q - docker.io/library/debian:12 >"$work/said" 2>&1 &&
        mkdir "$work/tree" && git archive HEAD | tar -C "$work/tree" -x && (cd "$work/tree" &&
        "${build[@]}" -t trivium .) >"$work/said" 2>&1
    report $? "podman builds the image: $("${in_store[@]}" images --format '{{.Size}}' trivium)"
    printf '%s\n' 'FROM localhost/trivium' 'RUN make demo' 'RUN mkdir my' \
        'RUN cp lessons/00-first-run/arithmetic/reference.c my/arithmetic.c' \
        'RUN make grade LESSON=00 FILE=my/arithmetic.c' >"$work/commands"
    "${build[@]}" -f "$work/commands" "$work/tree" >"$work/said" 2>&1 &&
        grep -q '^8 ranks and 1 rank: the same losses' "$work/said" && grep -q '^score 100 of 100' "$work/said"
    report $? "the demonstration and the grader in it"
    umount "$work/store/overlay" 2>/dev/null
}
try_program() { # ORACLE: the words that record a run
    in_debian 'trivium plan --cluster dgx-h100 --model gpt2-124m --gpus 8 && t="train --precision fp64 --steps 3" &&
        trivium launch -n 4 $t --dp 2 --tp 2 --metrics four && trivium $t --metrics one &&
        losses() { grep -oE "\"loss\":[0-9.]{12}" $1; } && [ "$(losses one)" = "$(losses four)" ] &&
        [ "$(losses one | wc -l)" = 3 ]'
    report $? "plan; and four ranks have the losses of one, to ten digits"
    in_debian "$1 record --out r --steps 2 "'&&
        trivium launch -n 2 oracle record --out s --dp 2 --steps 2 && trivium oracle check s r'
    report $? "a recorded run is checked there"
    in_debian 'mkdir d && cd d && touch /root/stamp && trivium demo >said 2>&1; tail -n 3 said
        tail -n 1 said | grep "^8 ranks and 1 rank: the same losses" && [ -s trivium-demo/report/report.html ] &&
        ! find / /dev/shm -xdev -newer /root/stamp -type f ! -path "/root/d/*" | grep .'
    report $? "the demonstration, which writes into the current folder alone"
}
# Prints the words for make of a spec: for each VARIANTS, as +mpi~cuda, what the recipe says
cat >"$work/recipe.py" <<'END'
import re, sys, types
said, here = [], sys.argv[1]
class Cuda: cuda_arch_values = ("80", "90")
dsl = types.ModuleType("spack.package")
for name in ("license", "version", "variant", "depends_on"):
    setattr(dsl, name, lambda *words, _name=name, **more: said.append((_name, words, more)))
dsl.MakefilePackage, dsl.MesonPackage, dsl.CudaPackage = type("Makefile", (), {}), type("Meson", (), {}), Cuda
sys.modules.update({"spack": types.ModuleType("spack"), "spack.package": dsl})
class Prefix(str): __getattr__ = lambda self, name: Prefix(self + "/" + name)
class Spec(dict):
    def satisfies(self, wanted): return wanted == "target=x86_64:" or wanted in self["all"]
recipe = {}
exec(open(here).read(), recipe)
for text in sys.argv[2:]:
    package = recipe["Trivium"]()
    package.prefix, package.spec = "/p", Spec(all=re.findall("[+~][a-z]+", text))
    package.spec["mpi"] = types.SimpleNamespace(mpicc="/m/bin/mpicc")
    package.spec["cuda"] = types.SimpleNamespace(prefix=Prefix("/c"))
    package.spec.variants = {"cuda_arch": types.SimpleNamespace(value=("90",))}
    print(" ".join(package.install_targets))
    assert package.build_targets == ["build"] + package.install_targets[2:]
print([more["sha256"] for name, _, more in said if name == "version"][0], len(said))
END
try_spack() {
    local repo=$work/out/spack_repo/trivium archive words own made= before
    git rev-parse -q HEAD >/dev/null 2>&1 || { echo "skip install: no git, of which make dist packs a commit"; return; }
    own=trivium-$(sed -n 's/^static const char VERSION.. = "\(.*\)";/\1/p' trivium.c).tar.gz
    [ -e "$own" ] || { made=$own; echo "of the user" >"$own"; }
    before=$(sha256sum "$own")
    tools/package spack "$work/out" >"$work/said" 2>&1 && archive=$(echo "$work"/out/trivium-*.tar.gz) &&
        python3 -B "$work/recipe.py" "$repo/packages/trivium/package.py" +mpi~cuda ~mpi~cuda ~mpi+cuda~cudnn \
            >"$work/words" 2>"$work/said" &&
        grep -q "^$(sha256sum "$archive" | cut -d' ' -f1) " "$work/words"
    report $? "a recipe for Spack, with the sum of its archive"
    [ "$before" = "$(sha256sum "$own" 2>&1)" ]
    report $? "an archive in the project stays as it is"
    [ -z "$made" ] || rm -f "$own"
    sed -n 1p "$work/words" | grep -q ' MPICC=/m/bin/mpicc CUDA=0$' && sed -n 2p "$work/words" |
        grep -q ' MPI=0 CUDA=0$' && sed -n 3p "$work/words" | grep -q \
        ' MPI=0 CUDA=1 CUDNN=0 CUDA_HOME=/c NVCC=/c/bin/nvcc CUDA_ARCH=90$'
    report $? "variants are the words of make"
    read -ra words < <(sed -n 2p "$work/words")
    mkdir "$work/unpacked" && tar xf "$archive" -C "$work/unpacked" --strip-components=1 &&
        env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL make -n -C "$work/unpacked" "${words[@]}" >"$work/said" 2>&1 &&
        grep -q "install -D build/trivium /p/bin/trivium" "$work/said" && ! grep -q 'comm_mpi[.]o\|-lmpi' "$work/said"
    report $? "the archive is built and installed by these words"
    command -v "$SPACK" >/dev/null || { echo "skip install: no $SPACK, which would read the recipe"; return; }
    export SPACK_USER_CONFIG_PATH=$work/config SPACK_USER_CACHE_PATH=$work/cache
    "$SPACK" repo add "$repo" >"$work/said" 2>&1 && "$SPACK" info --all trivium >>"$work/said" 2>&1 &&
        grep -q 'Ranks by MPI' "$work/said" && "$SPACK" info inih >>"$work/said" 2>&1
    report $? "$("$SPACK" --version) reads it"
}
if [ "${SPACK-}" ]; then try_spack; exit; fi
if [ "${WHEEL-}" ]; then try_wheel; exit; fi
if [ "${DEB-}" ]; then try_deb; exit; fi
if [ "${IMAGE-}" ]; then try_image; exit; fi

of_root=$work/root/usr program=$work/root/usr/bin/trivium

installs install >"$work/said" 2>&1 && [ -x "$program" ]
report $? "into a root of its own"
mkdir "$work/elsewhere"
(cd "$work/elsewhere" && "$program" plan --cluster dgx-h100 --model gpt2-124m --gpus 8 --stack megatron-core &&
    "$program" train --steps 1 --metrics '') >"$work/said" 2>&1
report $? "plan and train find their files from any folder"
mkdir -p "$work/strange/configs" && cp "$program" "$work/strange/program"
echo "echo mine" >"$work/strange/configs/demo.sh"
(cd "$work/elsewhere" && "$program" demo --help && ! "$program" demo --steps 3 && cd ../strange && ! ./program demo) \
    >"$work/said" 2>&1 && grep -q -- "--out DIR   " "$work/said" &&
    grep -q '^trivium demo: --steps is no option' "$work/said" &&
    ! grep -q mine "$work/said"
report $? "demo from any folder, and never the script of the folder it is called in"

version=$("$program" --version | sed 's/trivium //')
{
    grep -q "^version: $version\$" CITATION.cff || echo "CITATION.cff: not $version"
    grep -q "^## $version\b" CHANGELOG.md || echo "CHANGELOG.md: no heading $version"
    grep -q "^date-released: \"$(sed -n "s/^## $version, //p" CHANGELOG.md)\"\$" CITATION.cff ||
        echo "CITATION.cff: not CHANGELOG.md's date"
    grep -q "^Version: $version\$" "$of_root/lib/pkgconfig/trivium.pc" || echo "trivium.pc: not $version"
} >"$work/said"
[ ! -s "$work/said" ]
report $? "one version: $version"

python3 - "$program" "$of_root/share" >"$work/said" 2>&1 <<'END'
import re, subprocess, sys
program, share = sys.argv[1:]
said = lambda *words: subprocess.run([program, *words], capture_output=True, text=True).stdout
read = lambda name: open(f"{share}/{name}", encoding="utf-8").read()
bash, zsh, fish = (read(n) for n in ("bash-completion/completions/trivium", "zsh/site-functions/_trivium",
                                     "fish/vendor_completions.d/trivium.fish"))
commands, count = re.findall(r"^  trivium ([a-z]+) ", said("--help").split("\n\n")[1], re.M), 0
for command in commands:
    page = read(f"man/man1/trivium-{command}.1").replace("\\-", "-")
    of_zsh = zsh.split(f"\n    {command}) ")[1].split(";;")[0]
    of_bash = re.search(rf"^    {command}\) .* options='(.*?)'", bash, re.M)[1].split()
    words = ["options"] if command == "show" else []
    for option in re.findall(r"^ +--([a-z][a-z0-9-]*)(?= )", said(command, *words, "--help"), re.M):
        count += 1
        for where, there in (("man", f"--{option}" in page), ("bash", f"--{option}" in of_bash),
                             ("zsh", f"'--{option}[" in of_zsh),
                             ("fish", re.search(rf"seen_subcommand_from {command}' -l {option} ", fish))):
            if not there:
                print(f"{command} --{option}: not in {where}")
print(f"{count} options of {len(commands)} commands", file=sys.stderr)
END
[ "$(wc -l <"$work/said")" = 1 ]
report $? "each option has its place in man pages and completions: $(tail -1 "$work/said")"
completed() { # WORDS...: the last is completed
    bash -c '. "$0" && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && _trivium && echo "${COMPREPLY[*]}"' \
        "$of_root/share/bash-completion/completions/trivium" "$@"
}
{ completed trivium launch -n 4 tr; completed trivium plan --clus; completed trivium train --comm mpi --trace-s
    completed trivium compare --tie ''; } >"$work/said" 2>&1
[ "$(paste -sd , "$work/said")" = "train,--cluster,--trace-steps,on off" ]
report $? "bash completes commands behind launch, options, and values"
if command -v zsh >/dev/null && command -v fish >/dev/null; then
    zsh -n "$of_root/share/zsh/site-functions/_trivium" >"$work/said" 2>&1 && [ "$(fish -c "source \
        $of_root/share/fish/vendor_completions.d/trivium.fish; complete -C 'trivium compare --tie '" | cut -f1 |
        paste -sd ' ')" = "off on" ]
    report $? "zsh and fish read theirs"
else echo "skip install: zsh and fish are not here"; fi
if command -v man >/dev/null; then
    for page in "$of_root"/share/man/man1/*; do
        man --warnings=all -l "$page" 2>&1 >"$work/page" | grep -v "can't break line\|cannot break line"
        grep -q '^NAME' "$work/page" || echo "$page: no NAME"
    done >"$work/said"
    [ ! -s "$work/said" ]
    report $? "man formats each page without a warning"
else echo "skip install: man is not here"; fi

export PKG_CONFIG_PATH=$of_root/lib/pkgconfig
sed "s|/usr/|$of_root/|g" -i "$PKG_CONFIG_PATH/trivium.pc"
printf '%s\n' '#include "lib/base/rng.h"' '#include <stdio.h>' 'int main(void) {' \
    '    printf("%d\n", rng_stream("a") != rng_stream("b"));' '}' >"$work/mine.c"
read -ra flags < <(pkg-config --cflags --libs trivium)
(cd "$work/elsewhere" && cc -o mine ../mine.c "${flags[@]}" && [ "$(./mine)" = 1 ]) >"$work/said" 2>&1
report $? "a program of the library's, by pkg-config"
installs uninstall >"$work/said" 2>&1
find "$work/root" -type f >>"$work/said"
[ ! -s "$work/said" ]
report $? "uninstall leaves no file"
