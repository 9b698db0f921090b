#!/bin/sh
# install_test.sh SOURCE BUILD: installs a build into a scratch prefix and uses it as a stranger
# would: through pkg-config, through find_package, and by the header alone.
set -eu
source_dir=$1
build_dir=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix=$scratch/prefix
strict="-Wall -Wextra -Wpedantic -Werror"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# The C example prints a value twice, once computed and once given; the C++ one checks itself.
run_examples() { # run_examples C_PROGRAM CPP_PROGRAM
    "$1" >"$scratch/c.txt" || fail "$1"
    cat "$scratch/c.txt"
    grep -q 'out = \([-0-9.]*\), v = \1$' "$scratch/c.txt" || fail "$1: out is not v"
    "$2" || fail "$2"
}

echo "== install"
cmake --install "$build_dir" --prefix "$prefix" >"$scratch/install.txt"
libdir=$(dirname "$(find "$prefix" -name libflashcore.a)")
for file in include/flashcore.h bin/flashcore share/man/man1/flashcore.1 \
    share/bash-completion/completions/flashcore; do
    [ -s "$prefix/$file" ] || fail "$file was not installed"
done
"$prefix/bin/flashcore" --version

echo "== the shared library exports the header's functions and nothing else"
nm -D --defined-only "$libdir/libflashcore.so" | awk '{print $3}' | sort >"$scratch/exported"
! grep -v '^fc_' "$scratch/exported" || fail "the names above should be hidden"
sed -n 's/^FC_API.*[ *]\(fc_[a-z_]*\)(.*/\1/p' "$prefix/include/flashcore.h" | sort >"$scratch/declared"
[ -s "$scratch/declared" ] || fail "no declaration found in the header"
diff "$scratch/declared" "$scratch/exported" || fail "declared (<) and exported (>) differ"

echo "== the header alone, as C17 and as C++11"
echo '#include <flashcore.h>' >"$scratch/alone.c"
cc -std=c17 $strict -Wconversion -I"$prefix/include" -fsyntax-only "$scratch/alone.c"
c++ -std=c++11 $strict -Wconversion -I"$prefix/include" -fsyntax-only -x c++ "$scratch/alone.c"

echo "== pkg-config, shared"
export PKG_CONFIG_PATH="$libdir/pkgconfig"
flags=$(pkg-config --cflags --libs flashcore)
rpath=-Wl,-rpath,$libdir
cc -std=c17 $strict "$source_dir/examples/attend.c" $flags $rpath -o "$scratch/shared_c"
c++ -std=c++17 $strict "$source_dir/examples/attend.cpp" $flags $rpath -o "$scratch/shared_cpp"
run_examples "$scratch/shared_c" "$scratch/shared_cpp"

echo "== pkg-config, static"
needs=$(pkg-config --static --libs-only-l --libs-only-other flashcore | sed 's/-lflashcore//')
cc -std=c17 $strict -I"$prefix/include" "$source_dir/examples/attend.c" "$libdir/libflashcore.a" \
    $needs -o "$scratch/static_c"
run_examples "$scratch/static_c" "$scratch/shared_cpp"

echo "== find_package"
cmake -S "$source_dir/examples" -B "$scratch/examples" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_FLAGS="$strict" -DCMAKE_CXX_FLAGS="$strict" >"$scratch/configure.txt" ||
    fail "$(cat "$scratch/configure.txt")"
cmake --build "$scratch/examples"
run_examples "$scratch/examples/attend_c" "$scratch/examples/attend_cpp"

echo "== an installed tree can be moved"
mv "$prefix" "$scratch/moved"
moved=$(PKG_CONFIG_PATH=$scratch/moved/${libdir#"$prefix"/}/pkgconfig pkg-config --cflags flashcore)
cc -std=c17 $strict $moved -fsyntax-only "$source_dir/examples/attend.c"
