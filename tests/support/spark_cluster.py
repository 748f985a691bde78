"""A standalone Spark cluster on loopback, from the jars that PySpark brings, without SSH.

One job: `spark_cluster`, a master and two workers as processes of their own that end with the
block. Each worker has an address of its own, as Spark starts no twin on the host of the first.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.support.files import files_in
from tests.support.java import BRIEF
from tests.support.wait import wait_until

START_S = 120.0
CLASSES = "org.apache.spark.deploy"


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster; `folder` holds the logs of all its processes."""

    master: str
    folder: Path
    home: Path
    environment: dict[str, str]

    def submit(
        self, program: Path, *arguments: str, token: str, settings: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a program with spark-submit as a user would, the token in the environment."""
        given = {
            "spark.executor.memory": "512m",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            **(settings or {}),
        }
        options = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
        return subprocess.run(
            [
                str(self.home / "bin" / "spark-submit"), "--master", self.master, "--driver-memory",
                "512m", *options, str(program), *arguments,
            ],
            env={**self.environment, "FABRIC_TOKEN": token},
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )  # fmt: skip

    def logs(self) -> Iterator[tuple[Path, str]]:
        """Every file that a process of the cluster or a program wrote here."""
        for path in files_in(self.folder):
            if path.suffix != ".jar":
                yield path, path.read_text(errors="replace")


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """A master and two workers of two cores."""
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **{k: v for k, v in os.environ.items() if k != "FABRIC_TOKEN"},
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(folder / "conf"),
    }
    (folder / "conf").mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text(
        f"spark.executor.extraJavaOptions {' '.join(BRIEF)}\n"
    )
    with ExitStack() as stack:

        def start(name: str, *arguments: str) -> Path:
            log = folder / f"{name}.log"
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [str(home / "bin" / "spark-class"), *arguments],
                    env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                )  # fmt: skip
            stack.callback(_end, process)
            return log

        local = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = start("master", f"{CLASSES}.master.Master", *local)
        wait_until(partial(_says, log, "I have been elected leader"), START_S)
        master = re.search(r"spark://127\.0\.0\.1:\d+", log.read_text())
        assert master is not None
        workers = [
            start(
                f"worker-{n}", f"{CLASSES}.worker.Worker", "--host", f"127.0.0.{n}", "--port", "0",
                "--webui-port", "0", "--cores", "2", "--memory", "1g",
                "--work-dir", str(folder / f"work-{n}"), master[0],
            )
            for n in (1, 2)
        ]  # fmt: skip
        for worker in workers:
            wait_until(partial(_says, worker, "Successfully registered"), START_S)
        yield SparkCluster(master[0], folder, home, environment)


def _says(log: Path, words: str) -> bool:
    return words in log.read_text(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
