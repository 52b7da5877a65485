"""Twenty tasks written by hand, each of which becomes a folder in either layout."""

import json
from dataclasses import dataclass
from pathlib import Path

from tests.tasks.terminal.formats.folders import endless, harbor


@dataclass(frozen=True)
class Written:
    """build: shell lines run as root. initial, final: bodies of the two tests. solve: commands, one per turn. wrong: a plausible
    attempt that must not pass."""

    name: str
    category: str
    instruction: str
    build: str
    initial: str
    final: str
    solve: tuple[str, ...]
    wrong: tuple[str, ...]

    def endless(self, folder: Path) -> Path:
        messages = [{"role": "assistant", "content": f"<command>{c}</command>"} for c in self.solve]
        summary = {"num_runs": 1, "num_success": 1, "results": [{"success": True, "messages": messages}]}
        post = (
            "    useradd -m user\n    mkdir -p /home/user\n"
            + self.build
            + "\n    chown -R user:user /home/user"
        )
        return endless(
            folder,
            post=post,
            initial=_test("initial", self.initial),
            final=_test("final", self.final),
            description=self.instruction,
            truth=" ; ".join(self.solve),
            files={"solutions/written_summary.json": json.dumps(summary)},
        )

    def harbor(self, folder: Path) -> Path:
        dockerfile = (
            "FROM ubuntu:22.04\nRUN apt-get update && apt-get install -y python3 && rm -rf /var/lib/apt/lists/*\n"
            f"RUN useradd -m user && mkdir -p /home/user\nRUN <<'BUILD'\nset -e\n{self.build}\nBUILD\n"
            "ENV HOME=/home/user\nWORKDIR /home/user\n"
        )
        toml = f'version = "0.1"\n[metadata]\ndifficulty = "easy"\ncategory = "{self.category}"\n'
        return harbor(
            folder,
            dockerfile,
            final=_test("final", self.final),
            toml=toml,
            solve="set -e\ncd /home/user\n" + "\n".join(self.solve),
            files={
                "instruction.md": self.instruction + "\n",
                "environment/test_initial_state.py": _test("initial", self.initial),
            },
        )


def _test(name: str, body: str) -> str:
    lines = "\n".join(f"    {line}" for line in body.strip("\n").split("\n"))
    imports = "import csv\nimport gzip\nimport hashlib\nimport json\nimport os\nimport sqlite3\nimport stat\nimport subprocess\nimport tarfile\nimport zipfile\n"
    return f"{imports}\nos.chdir('/home/user')\n\n\ndef read(path):\n    with open(path) as file:\n        return file.read()\n\n\ndef test_the_{name}_state():\n{lines}\n"


TASKS = (
    Written(
        "count_errors", "text",
        "Count the lines of /home/user/app.log that contain ERROR and write the number to /home/user/errors.txt.",
        "printf 'INFO a\\nERROR b\\nWARN ERROR c\\nerror d\\nERROR ERROR e\\n' > /home/user/app.log",
        "assert read('app.log').count('ERROR') == 4",
        "assert read('errors.txt').strip() == '3'",
        ("grep -c ERROR app.log > errors.txt",),
        ("grep -o ERROR app.log | wc -l > errors.txt",),
    ),
    Written(
        "replace_host", "text",
        "In every .conf file below /home/user/conf replace old.example.org by new.example.org; leave other files alone.",
        "mkdir -p /home/user/conf/sub\nfor f in a.conf sub/b.conf sub/notes.txt; do echo \"host=old.example.org # old.example.org\" > /home/user/conf/$f; done",
        "assert 'old' in read('conf/a.conf')",
        "assert read('conf/a.conf') == read('conf/sub/b.conf') == 'host=new.example.org # new.example.org\\n'\nassert 'old.example.org # old' in read('conf/sub/notes.txt')",
        ("find conf -name '*.conf' -exec sed -i 's/old\\.example\\.org/new.example.org/g' {} +",),
        ("sed -i 's/old/new/g' conf/*.conf",),
    ),
    Written(
        "sorted_unique", "text",
        "Write the distinct names of /home/user/names.txt, sorted bytewise, to /home/user/unique.txt.",
        "printf 'bob\\nAda\\nbob\\ncy\\nAda\\n' > /home/user/names.txt",
        "assert len(read('names.txt').split()) == 5",
        "assert read('unique.txt') == 'Ada\\nbob\\ncy\\n'",
        ("LC_ALL=C sort -u names.txt > unique.txt",),
        ("uniq names.txt > unique.txt",),
    ),
    Written(
        "pack_reports", "archives",
        "Pack the folder /home/user/reports into /home/user/reports.tar.gz so that its paths begin with reports/, and remove the folder.",
        "mkdir -p /home/user/reports/q1 && echo one > /home/user/reports/q1/a.txt && echo two > /home/user/reports/b.txt",
        "assert os.path.isdir('reports/q1')",
        "with tarfile.open('reports.tar.gz', 'r:gz') as archive:\n    names = {m.name for m in archive if m.isfile()}\nassert names == {'reports/q1/a.txt', 'reports/b.txt'}\nassert not os.path.exists('reports')",
        ("tar -czf reports.tar.gz reports", "rm -r reports"),
        ("cd reports; tar -czf ../reports.tar.gz .; cd ..; rm -r reports",),
    ),
    Written(
        "unpack_one", "archives",
        "Extract only etc/settings.ini from /home/user/backup.tar to /home/user/settings.ini; extract nothing else.",
        "mkdir -p /tmp/b/etc && echo 'mode=fast' > /tmp/b/etc/settings.ini && echo x > /tmp/b/etc/other.ini && tar -C /tmp/b -cf /home/user/backup.tar etc && rm -r /tmp/b",
        "assert tarfile.is_tarfile('backup.tar')",
        "assert read('settings.ini') == 'mode=fast\\n'\nassert sorted(os.listdir('.')) == ['backup.tar', 'settings.ini']",
        ("tar -xOf backup.tar etc/settings.ini > settings.ini",),
        ("tar -xf backup.tar && cp etc/settings.ini .",),
    ),
    Written(
        "compress_old", "archives",
        "Compress with gzip every .log file in /home/user/logs that was last changed before 2024; leave the others.",
        "mkdir /home/user/logs && cd /home/user/logs && for y in 2021 2023 2025; do echo $y > $y.log; touch -d $y-06-01 $y.log; done; echo n > note.txt; touch -d 2020-01-01 note.txt",
        "assert sorted(os.listdir('logs')) == ['2021.log', '2023.log', '2025.log', 'note.txt']\nassert os.stat('logs/2021.log').st_mtime < 1640000000",
        "assert sorted(os.listdir('logs')) == ['2021.log.gz', '2023.log.gz', '2025.log', 'note.txt']\nassert gzip.open('logs/2023.log.gz').read() == b'2023\\n'",
        ("find logs -name '*.log' ! -newermt 2024-01-01 -exec gzip {} +",),
        ("gzip logs/*.log",),
    ),
    Written(
        "close_keys", "permissions",
        "Files in /home/user/keys may be read and written by their owner only, and the folder opened by its owner only.",
        "mkdir /home/user/keys && touch /home/user/keys/a.pem /home/user/keys/.b.pem && chmod 666 /home/user/keys/a.pem /home/user/keys/.b.pem && chmod 755 /home/user/keys",
        "assert stat.S_IMODE(os.stat('keys/.b.pem').st_mode) == 0o666",
        "assert [stat.S_IMODE(os.stat(p).st_mode) for p in ('keys', 'keys/a.pem', 'keys/.b.pem')] == [0o700, 0o600, 0o600]",
        ("find keys -type f -exec chmod 600 {} +", "chmod 700 keys"),
        ("chmod 700 keys; chmod 600 keys/*",),
    ),
    Written(
        "shared_folder", "permissions",
        "Make /home/user/shared: everybody may read and enter, the group may write, and new files belong to the folder's group.",
        "true",
        "assert not os.path.exists('shared')",
        "assert stat.S_IMODE(os.stat('shared').st_mode) == 0o2775",
        ("mkdir shared && chmod 2775 shared",),
        ("mkdir -m 775 shared",),
    ),
    Written(
        "stop_worker", "processes",
        "Run /home/user/worker.sh in the background, write its process id to /home/user/worker.pid, then end it with SIGTERM so that it writes its farewell to worker.log.",
        "printf '#!/bin/bash\\ntrap \"echo stopped $$ >> /home/user/worker.log; exit 0\" TERM\\necho started $$ >> /home/user/worker.log\\nwhile :; do sleep 0.1; done\\n' > /home/user/worker.sh && chmod 755 /home/user/worker.sh",
        "assert os.access('worker.sh', os.X_OK)",
        "pid = read('worker.pid').strip()\nassert read('worker.log') == f'started {pid}\\nstopped {pid}\\n'",
        ("./worker.sh >/dev/null 2>&1 & echo $! > worker.pid; sleep 0.5", "kill -TERM $(cat worker.pid); sleep 0.5"),
        ("./worker.sh >/dev/null 2>&1 & echo $! > worker.pid; sleep 0.5; kill -KILL $!; sleep 0.3",),
    ),
    Written(
        "git_branch", "git",
        "In the repository /home/user/repo make the branch fix, commit there a file VERSION that holds 1.1, and leave main as it is.",
        "git init -q -b main /home/user/repo && cd /home/user/repo && git config user.email a@example.org && git config user.name A && echo 1.0 > VERSION && git add VERSION && git commit -qm first",
        "assert read('repo/VERSION') == '1.0\\n'",
        "def git(*words):\n    return subprocess.run(['git', '-C', 'repo', *words], capture_output=True, text=True, check=True).stdout\nassert git('show', 'fix:VERSION').strip() == '1.1'\nassert git('show', 'main:VERSION') == '1.0\\n'\nassert git('rev-list', '--count', 'main..fix').strip() == '1'",
        ("cd repo && git checkout -q -b fix", "echo 1.1 > VERSION && git commit -qam 'version 1.1'"),
        ("cd repo && echo 1.1 > VERSION && git commit -qam x && git branch fix",),
    ),
    Written(
        "git_who", "git",
        "Write the e-mail address of whoever deleted notes.txt in /home/user/repo to /home/user/who.txt.",
        "git init -q -b main /home/user/repo && cd /home/user/repo && c() { git -c user.email=$1 -c user.name=x commit -qm \"$2\"; } && echo a > notes.txt && git add -A && c ann@example.org one && echo b > b && git add -A && c bob@example.org two && git rm -q notes.txt && c cid@example.org three && echo c > c && git add -A && c dan@example.org four",
        "assert not os.path.exists('repo/notes.txt')",
        "assert read('who.txt').strip() == 'cid@example.org'",
        ("git -C repo log --diff-filter=D --format=%ae -- notes.txt > who.txt",),
        ("git -C repo log -1 --format=%ae > who.txt",),
    ),
    Written(
        "sqlite_total", "sqlite",
        "Write the customer with the largest total in the table orders of /home/user/shop.db, and that total, as name,total to /home/user/best.csv.",
        "python3 -c \"import sqlite3; c = sqlite3.connect('/home/user/shop.db'); c.execute('create table orders (name text, amount int)'); c.executemany('insert into orders values (?, ?)', [('ann', 5), ('bob', 9), ('ann', 6), ('cid', 8)]); c.commit()\"",
        "assert sqlite3.connect('shop.db').execute('select count(*) from orders').fetchone() == (4,)",
        "assert read('best.csv').strip() == 'ann,11'",
        ("""python3 -c "import sqlite3; print(*sqlite3.connect('shop.db').execute('select name, sum(amount) from orders group by name order by 2 desc limit 1').fetchone(), sep=',')" > best.csv""",),
        ("echo bob,9 > best.csv",),
    ),
    Written(
        "sqlite_index", "sqlite",
        "Add an index called by_day on the column day of the table visits in /home/user/visits.db; lose no row.",
        "python3 -c \"import sqlite3; c = sqlite3.connect('/home/user/visits.db'); c.execute('create table visits (day text, page text)'); c.executemany('insert into visits values (?, ?)', [('mon', 'a'), ('tue', 'b')]); c.commit()\"",
        "assert os.path.getsize('visits.db') > 0",
        "c = sqlite3.connect('visits.db')\nassert [r[2] for r in c.execute('pragma index_info(by_day)')] == ['day']\nassert c.execute('select count(*) from visits').fetchone() == (2,)",
        ("""python3 -c "import sqlite3; c = sqlite3.connect('visits.db'); c.execute('create index by_day on visits (day)'); c.commit()" """.strip(),),
        ("""python3 -c "import sqlite3; c = sqlite3.connect('visits.db'); c.execute('create index by_day on visits (page)'); c.commit()" """.strip(),),
    ),
    Written(
        "csv_to_json", "csv and json",
        "Turn /home/user/stock.csv into /home/user/stock.json: a list of objects, with count as a number.",
        "printf 'item,count\\n\"nut, small\",3\\nbolt,12\\n' > /home/user/stock.csv",
        "assert len(list(csv.reader(open('stock.csv')))) == 3",
        "assert json.loads(read('stock.json')) == [{'item': 'nut, small', 'count': 3}, {'item': 'bolt', 'count': 12}]",
        ("""python3 -c "import csv, json; print(json.dumps([{'item': r['item'], 'count': int(r['count'])} for r in csv.DictReader(open('stock.csv'))]))" > stock.json""",),
        ("""python3 -c "import csv, json; print(json.dumps(list(csv.DictReader(open('stock.csv')))))" > stock.json""",),
    ),
    Written(
        "json_field", "csv and json",
        "Write the ids of the users of /home/user/users.json that are active, in their order, one per line, to /home/user/active.txt.",
        "printf '{\"users\": [{\"id\": 7, \"active\": true}, {\"id\": 3, \"active\": false}, {\"id\": 5, \"active\": true}]}' > /home/user/users.json",
        "assert len(json.loads(read('users.json'))['users']) == 3",
        "assert read('active.txt').split() == ['7', '5']",
        ("""python3 -c "import json; [print(u['id']) for u in json.load(open('users.json'))['users'] if u['active']]" > active.txt""",),
        ("grep -o '[0-9]' users.json > active.txt",),
    ),
    Written(
        "cron_line", "cron files",
        "Add to /home/user/crontab a line that runs /home/user/backup.sh at 02:30 every Sunday; keep the lines that are there.",
        "echo '0 5 * * * /home/user/mail.sh' > /home/user/crontab",
        "assert read('crontab').count('\\n') == 1",
        "lines = [' '.join(line.split()) for line in read('crontab').splitlines()]\nassert lines[0] == '0 5 * * * /home/user/mail.sh'\nassert lines[1:] in (['30 2 * * 0 /home/user/backup.sh'], ['30 2 * * 7 /home/user/backup.sh'], ['30 2 * * sun /home/user/backup.sh'])",
        ("echo '30 2 * * 0 /home/user/backup.sh' >> crontab",),
        ("echo '2 30 * * 0 /home/user/backup.sh' >> crontab",),
    ),
    Written(
        "cron_system", "cron files",
        "Comment out the job of the user legacy in /etc/cron.d/jobs (put # before the line), and change nothing else there.",
        "printf '# jobs\\n1 2 * * * root /opt/a\\n3 4 * * * legacy /opt/b\\n' > /etc/cron.d/jobs",
        "assert 'legacy' in read('/etc/cron.d/jobs')",
        "lines = read('/etc/cron.d/jobs').splitlines()\nassert [line.replace('# 3', '#3') for line in lines] == ['# jobs', '1 2 * * * root /opt/a', '#3 4 * * * legacy /opt/b']",
        ("sed -i '/ legacy /s/^/#/' /etc/cron.d/jobs",),
        ("sed -i 's/^/#/' /etc/cron.d/jobs",),
    ),
    Written(
        "checksums", "checksums",
        "Of the files in /home/user/data, write the names of those whose SHA-256 differs from /home/user/SHA256SUMS to /home/user/broken.txt, one per line.",
        "mkdir /home/user/data && cd /home/user/data && for n in a b c d; do echo $n > $n; done && sha256sum a b c d > ../SHA256SUMS && echo x >> b && printf 'D\\n' > d",
        "assert read('SHA256SUMS').count('\\n') == 4",
        "assert sorted(os.path.basename(line) for line in read('broken.txt').split()) == ['b', 'd']",
        ("cd data; sha256sum -c ../SHA256SUMS 2>/dev/null | sed -n 's/: FAILED$//p' > ../broken.txt",),
        ("ls data > broken.txt",),
    ),
    Written(
        "find_large", "find and xargs",
        "Move every file of more than 1000 bytes below /home/user/in to /home/user/large (which does not exist yet), names with spaces too.",
        "mkdir -p /home/user/in/deep && cd /home/user/in && head -c 2000 /dev/zero > 'big one' && head -c 1500 /dev/zero > deep/two && head -c 1000 /dev/zero > edge && echo s > small",
        "assert os.path.getsize('in/big one') == 2000",
        "assert sorted(os.listdir('large')) == ['big one', 'two']\nassert sorted(f for _, _, fs in os.walk('in') for f in fs) == ['edge', 'small']",
        ("mkdir large && find in -type f -size +1000c -print0 | xargs -0 mv -t large",),
        ("mkdir large && find in -type f -size +0 | xargs mv -t large",),
    ),
    Written(
        "links", "links",
        "Make /home/user/current a symbolic link to the newest folder (by name) in /home/user/releases, relative to /home/user.",
        "mkdir -p /home/user/releases/2024-11-30 /home/user/releases/2025-02-01 /home/user/releases/2025-01-31 && ln -s releases/2024-11-30 /home/user/current",
        "assert os.readlink('current') == 'releases/2024-11-30'",
        "assert os.readlink('current').rstrip('/') == 'releases/2025-02-01'",
        ("ln -sfn releases/$(ls releases | sort | tail -1) current",),
        ("ln -sf releases/2025-02-01 current",),
    ),
)  # fmt: skip
