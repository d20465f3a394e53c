import os
import subprocess
import sys

import pytest

from spanscore.cli import heaps


@pytest.mark.parametrize(("given", "inherited"), [(None, "2"), ("7", "7")])
def test_programs_that_are_started_share_as_few_heaps_unless_the_environment_decides(
    given, inherited
):
    code = (
        "import os; from spanscore.cli import heaps; heaps.use_few();"
        " print(os.environ['MALLOC_ARENA_MAX'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "MALLOC_ARENA_MAX"}
    environment |= {} if given is None else {"MALLOC_ARENA_MAX": given}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.strip() == inherited


def test_code_that_was_let_go_of_runs_again_all_the_same():
    code = (
        "import re, sqlite3; from spanscore.cli import heaps; heaps.let_go_of_code();"
        " print(sqlite3.connect(':memory:').execute('select 1').fetchone(), re.findall('a', 'aa'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(1,) ['a', 'a']"


MAPS = """\
1000-2000 r-xp 00000000 00:01 7    /lib/one.so
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
2000-3000 r--p 00001000 00:01 7    /lib/one.so
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd mr mw me
3000-4000 r-xp 00000000 00:01 8    /lib/patched.so
Anonymous:             4 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
4000-5000 r-xp 00000000 00:01 9    /lib/patched_and_swapped_out.so
Anonymous:             0 kB
Swap:                  4 kB
VmFlags: rd ex mr mw me
5000-6000 r-xp 00000000 00:00 0
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
6000-7000 r-xp 00000000 00:00 0    [vdso]
Anonymous:             0 kB
Swap:                  0 kB
VmFlags: rd ex mr mw me
"""


def test_only_the_unchanged_code_of_files_is_let_go_of():
    assert list(heaps._unchanged_code(MAPS.splitlines())) == [(0x1000, 0x2000)]


@pytest.mark.parametrize("maps", [b"1-2 r-xp 0 0 0 /lib/\xff\x0b.so\n", b"?", b""])
def test_a_server_starts_with_any_paths_mapped(maps, tmp_path, monkeypatch):
    path = tmp_path / "smaps"
    path.write_bytes(maps)
    monkeypatch.setattr(heaps, "_SMAPS", path)
    heaps.let_go_of_code()


def test_a_server_starts_where_it_may_not_read_its_maps(tmp_path, monkeypatch):
    class Unreadable(type(tmp_path)):
        def read_bytes(self):
            raise PermissionError(self)

    path = Unreadable(tmp_path / "smaps")
    path.touch()
    monkeypatch.setattr(heaps, "_SMAPS", path)
    heaps.let_go_of_code()
