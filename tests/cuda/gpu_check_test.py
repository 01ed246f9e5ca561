#!/usr/bin/env python3
"""Runs tools/gpu_check.sh with programs that pass, fail, hang, crash, skip or are missing.

    gpu_check_test.py SOURCE_ROOT
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(sys.argv.pop(1))

INFO = '{"backends": [{"id": "cpu", "available": true, "reason": ""}, %s]}'
FOUND = '{"id": "cuda", "available": true, "reason": ""}'
ABSENT = '{"id": "cuda", "available": false, "reason": "no driver is installed"}'

# A stand-in for a GoogleTest program with one test, which ends in a given way.
GTEST = """#!/bin/sh
for word; do case $word in --gtest_output=json:*) report=${{word#*json:}};; esac; done
echo "backend $EVERKERNEL_BACKEND seconds $EVERKERNEL_SECONDS"
{says}
cat > "$report" <<END
{{"testsuites": [{{"name": "Suite",
  "testsuite": [{{"name": "Test", "result": "{result}"{more}}}]}}]}}
END
exit {status}
"""
PASSES = GTEST.format(says="", result="COMPLETED", more=', "rounds": "12"', status=0)
SAYS_WHY = "printf '[ RUN      ] Suite.Test\\na.cpp:1: Failure\\none is not two\\n'"
FAILS = GTEST.format(says=SAYS_WHY, result="COMPLETED",
                     more=', "failures": [{"failure": "words … \\\\xE2\\\\x80\\\\xA6"}]', status=1)
SKIPS = GTEST.format(says="printf 'a.cpp:1: Skipped\\nfor a reason\\n[  SKIPPED ] Suite.Test\\n'",
                     result="SKIPPED", more="", status=0)
HANGS = "#!/bin/sh\ntrap '' TERM\nsleep 1000 & echo $! > \"$0.child\"\nsleep 1000\n"
CRASHES = "#!/bin/sh\necho before\nkill -SEGV $$\n"
BENCH = """#!/bin/sh
for word; do case $word in --json=*) report=${word#--json=};; esac; done
cat > "$report" <<END
{"suite": "cuda", "results": [{"question": "q", "contender": "c", "ratio_to_floor": %s,
 "median_ns": 5.0, "least_ratio": 0.5, "meets_target": %s}]}
END
"""
# The first eight arguments are the sanitizer's, the others the program's.
WATCHES = "#!/bin/sh\ntool=$2; shift 8; \"$@\" || exit\n"
SANITIZER = WATCHES + """
case $tool in {bad}) echo '========= ERROR SUMMARY: 3 errors'; exit 99;; esac
echo '========= ERROR SUMMARY: 0 errors'
"""
TESTS = ["cuda_conformance_test", "jit_test", "cuda_differential_test", "random_ring_test",
         "random_job_test", "random_session_test", "endurance_test", "process_end_test", "run_test",
         "cuda_beside_session_test", "cuda_litmus_test"]


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name in TESTS:
            self.program(name, PASSES)
        self.program("sanitizer_workload", "#!/bin/sh\n")
        self.program("compute-sanitizer", SANITIZER.format(bad="none"))
        self.program("cuda_bench", BENCH % ("0.9", "true"))
        self.program("live_rate_bench", BENCH % ("0.9", "true"))
        self.program("live_bench", BENCH % ("0.9", "true"))
        self.program("everkernel", "#!/bin/sh\necho a driver talks >&2\n"
                     f"cat <<END\n{INFO % FOUND}\nEND\n")
        self.program("nvidia-smi", "#!/bin/sh\necho 'A GPU, 999.9, 1 MiB'\n")

    def lines(self, name):
        return sorted((self.folder / name).read_text().split("\n")[:-1])

    def program(self, name, text):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)

    def check(self, *arguments):
        """Runs gpu_check.sh. Returns its exit status and its report."""
        out = self.folder / "report.json"
        path = f'{self.folder}:{os.environ["PATH"]}'
        done = subprocess.run(
            [str(ROOT / "tools/gpu_check.sh"), str(self.folder), "--out", str(out), *arguments],
            env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=100)
        self.output = done.stdout + done.stderr
        return done.returncode, json.loads(out.read_text())

    def step(self, report, name):
        return next(step for step in report["steps"] if step["name"] == name)

    def test_passes_when_everything_does(self):
        status, report = self.check()
        self.assertEqual(status, 0, self.output)
        self.assertEqual(report["verdict"], "passed")
        self.assertEqual({step["status"] for step in report["steps"]}, {"passed"})
        self.assertEqual(report["machine"]["gpu"], "A GPU")
        self.assertEqual(report["machine"]["driver"], "999.9")
        rings = self.step(report, "random rings")
        self.assertEqual(rings["environment"]["EVERKERNEL_BACKEND"], "cuda")
        self.assertIn("EVERKERNEL_SECONDS", rings["environment"])
        litmus = self.step(report, "litmus")
        self.assertEqual(litmus["tests"]["properties"], {"Suite.Test": {"rounds": "12"}})
        self.assertEqual(litmus["detail"], "1 passed, rounds 12")
        self.assertNotIn(str(self.folder), json.dumps(report), "the report can be shown around")
        self.assertNotIn(tempfile.gettempdir(), json.dumps(report))
        bench = self.step(report, "benchmarks")["bench"]
        self.assertEqual(bench["results"][0]["ratio_to_floor"], 0.9)
        self.assertEqual(self.step(report, "targets of benchmarks")["detail"], "1 of 1 met")
        self.assertEqual(self.step(report, "targets of live rates")["detail"], "1 of 1 met")
        self.assertEqual(self.step(report, "targets of live benchmarks")["detail"], "1 of 1 met")
        sessions = self.step(report, "random sessions")
        self.assertEqual(sessions["environment"]["EVERKERNEL_BACKEND"], "cuda")
        self.assertEqual(self.step(report, "sessions")["processes"], 1)
        endurance = self.step(report, "endurance of sessions")
        self.assertEqual(endurance["environment"]["EVERKERNEL_ITEMS"], "1000000000")
        self.assertEqual(self.step(report, "live benchmarks")["detail"], "1 figures")
        for name in [step["name"] for step in report["steps"]]:
            self.assertIn(name, self.output)

    def test_programs_that_do_not_run_here(self):
        self.program("everkernel", "#!/bin/sh\necho 'no version GLIBC_9.9' >&2\nexit 1\n")
        done = subprocess.run(
            [str(ROOT / "tools/gpu_check.sh"), str(self.folder), "--out", "/dev/null"],
            capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 2)
        self.assertIn("GLIBC_9.9", done.stderr)

    def test_who_ends_it_ends_what_it_started(self):
        self.program("cuda_conformance_test", HANGS)
        check = subprocess.Popen(
            [str(ROOT / "tools/gpu_check.sh"), str(self.folder), "--out", "/dev/null"],
            stdout=subprocess.DEVNULL)
        child = self.folder / "cuda_conformance_test.child"
        deadline = time.monotonic() + 30
        while not (child.exists() and child.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        pid = int(child.read_text())
        check.terminate()
        self.assertEqual(check.wait(30), 128 + 15)
        while is_running(pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertFalse(is_running(pid))

    def test_without_a_gpu(self):
        self.program("everkernel", f"#!/bin/sh\ncat <<END\n{INFO % ABSENT}\nEND\n")
        status, report = self.check()
        self.assertEqual(status, 77, self.output)
        self.assertEqual(report["verdict"], "no GPU")
        self.assertIn("skipped: no driver is installed", self.output)

    def test_one_that_fails(self):
        self.program("random_job_test", FAILS)
        status, report = self.check()
        self.assertEqual(status, 1, self.output)
        self.assertEqual(report["verdict"], "failed")
        jobs = self.step(report, "random jobs")
        self.assertEqual(jobs["status"], "failed")
        self.assertEqual(jobs["tests"]["failed"], ["Suite.Test"])
        self.assertIn("one is not two", jobs["output_failure"])
        self.assertEqual(self.step(report, "litmus")["status"], "passed")  # later steps still run

    def test_one_that_hangs(self):
        self.program("cuda_litmus_test", HANGS)
        begin = time.monotonic()
        status, report = self.check("--budget", "30")
        self.assertLess(time.monotonic() - begin, 40)
        self.assertEqual(status, 1, self.output)
        litmus = self.step(report, "litmus")
        self.assertEqual(litmus["status"], "timeout")
        self.assertIn("reached its limit", litmus["detail"])
        self.assertEqual(self.step(report, "benchmarks")["status"], "passed")
        child = int((self.folder / "cuda_litmus_test.child").read_text())
        self.assertFalse(is_running(child), "what it started still runs")

    def test_one_that_crashes(self):
        self.program("cuda_conformance_test", CRASHES)
        status, report = self.check()
        self.assertEqual(status, 1, self.output)
        conformance = self.step(report, "conformance")
        self.assertEqual(conformance["status"], "failed")
        self.assertEqual(conformance["exit_status"], -11)
        self.assertIn("before", conformance["output_tail"])

    def test_one_that_skips_everything(self):
        self.program("cuda_differential_test", SKIPS)
        status, report = self.check()
        self.assertEqual(status, 1, self.output)
        programs = self.step(report, "random programs")
        self.assertEqual(programs["status"], "skipped")
        self.assertEqual(programs["tests"]["skipped"],
                         {"for a reason": ["Suite.Test"]})

    def test_one_that_runs_elsewhere(self):
        self.program("random_ring_test", PASSES.replace("backend $EVERKERNEL_BACKEND", ""))
        status, report = self.check()
        self.assertEqual(status, 1, self.output)
        rings = self.step(report, "random rings")
        self.assertIn("does not say", rings["detail"])
        self.assertRegex(rings["output_tail"], r"seconds \d+")  # the step passed its time on

    def test_compiled_code_is_kept_where_it_was_asked_to_be(self):
        code = self.folder / "code"
        code.mkdir()
        self.program("run_test", PASSES.replace(
            "exit 0", 'echo kept > "$EVERKERNEL_TEST_CACHE_DIR/one.code"; exit 0'))
        status, report = self.check("--only", "planned runs", "--code", str(code))
        self.assertEqual(status, 0, self.output)
        self.assertEqual((code / "one.code").read_text(), "kept\n")
        self.assertNotIn(str(self.folder), json.dumps(report))

    def test_processes_of_a_step_count_together(self):
        cores = len(os.sched_getaffinity(0))
        self.program("cuda_differential_test",
                     PASSES.replace('"rounds": "12"', '"programs": "100"'))
        status, report = self.check("--only", "random programs", "--programs", "100")
        self.assertEqual(status, 0, self.output)
        self.assertEqual([step["name"] for step in report["steps"]], ["random programs"])
        programs = self.step(report, "random programs")
        self.assertEqual(programs["processes"], cores)
        self.assertEqual(programs["tests"]["passed"], cores)
        tried = programs["tests"]["properties"]["Suite.Test"]["programs"]
        self.assertEqual(tried, str(100 * cores))
        self.assertGreaterEqual(int(programs["environment"]["EVERKERNEL_PROGRAMS"]) * cores, 100)

    def test_time_that_is_over_before_all_programs_were_tried(self):
        self.program("cuda_differential_test", PASSES.replace("rounds", "programs"))
        cores = len(os.sched_getaffinity(0))
        arguments = ["--only", "random programs", "--programs"]
        status, report = self.check(*arguments, str(12 * cores + 1))
        self.assertEqual(status, 1, self.output)
        self.assertIn("time was over", self.step(report, "random programs")["detail"])
        self.assertEqual(self.check(*arguments, str(12 * cores))[0], 0, self.output)

    def test_processes_of_a_step_share_the_seeds(self):
        self.program("random_job_test", PASSES.replace(
            "backend", "seed $EVERKERNEL_SEED by $EVERKERNEL_SEED_STEP backend").replace(
            "exit 0", f'echo "$EVERKERNEL_SEED $EVERKERNEL_SEED_STEP" >> {self.folder}/seeds'))
        status, report = self.check("--only", "random jobs")
        self.assertEqual(status, 0, self.output)
        first = int(self.step(report, "random jobs")["environment"]["EVERKERNEL_SEED"])
        self.assertEqual(self.lines("seeds"), sorted(f"{first + index} 4" for index in range(4)))
        (self.folder / "seeds").unlink()
        os.environ["EVERKERNEL_SEED"] = "0x10"  # the tests accept hexadecimal, too
        self.addCleanup(os.environ.pop, "EVERKERNEL_SEED")
        self.assertEqual(self.check("--only", "random jobs")[0], 0, self.output)
        self.assertEqual(self.lines("seeds"), ["16 4", "17 4", "18 4", "19 4"])

    def test_one_process_of_a_step_that_fails(self):
        body = FAILS.split("\n", 1)[1]
        self.program("jit_test",
                     "#!/bin/sh\nif [ \"$GTEST_SHARD_INDEX\" != 1 ]; then\n"
                     f"{PASSES.split(chr(10), 1)[1]}fi\n{body}")
        status, report = self.check("--only", "handler tables")
        self.assertEqual(status, 1, self.output)
        self.assertEqual(self.step(report, "handler tables")["tests"]["failed"], ["Suite.Test"])

    def test_a_step_that_there_is_not(self):
        done = subprocess.run(
            [str(ROOT / "tools/gpu_check.sh"), str(self.folder), "--only", "none"],
            capture_output=True, text=True, timeout=100)
        self.assertEqual(done.returncode, 2)
        self.assertIn("there is no step 'none'", done.stderr)

    def test_one_that_is_missing(self):
        (self.folder / "random_ring_test").unlink()
        status, report = self.check()
        self.assertEqual(status, 1, self.output)
        self.assertEqual(self.step(report, "random rings")["status"], "missing")

    def test_a_sanitizer_that_finds_something(self):
        self.program("compute-sanitizer", SANITIZER.format(bad="initcheck"))
        status, report = self.check()
        self.assertEqual(status, 1, self.output)
        for tool in ["memcheck", "synccheck"]:
            for name in [tool, f"{tool} sessions"]:
                self.assertEqual(self.step(report, name)["status"], "passed")
        for name in ["initcheck", "initcheck sessions"]:
            initcheck = self.step(report, name)
            self.assertEqual(initcheck["status"], "failed")
            self.assertIn("3 errors", initcheck["detail"])

    def test_sanitizers_watch_sessions_apart_from_drains(self):
        self.program("sanitizer_workload", f'#!/bin/sh\necho "$*" >> {self.folder}/runs\n')
        self.assertEqual(self.check()[0], 0, self.output)
        self.assertEqual(self.lines("runs"), 3 * ["--items=100000 --only=drains"] +
                         3 * ["--items=100000 --only=live"] + ["--items=8192 --only=groups"])

    def test_a_sanitizer_that_finds_something_in_tests_that_pass(self):
        self.program("compute-sanitizer", SANITIZER.format(bad="memcheck"))
        status, report = self.check("--only", "memcheck rings")
        self.assertEqual(status, 1, self.output)
        rings = self.step(report, "memcheck rings")
        self.assertEqual(rings["status"], "failed")
        self.assertEqual(rings["detail"],
                         "4 passed, rounds 48, exit status 99; ERROR SUMMARY: 3 errors")

    def test_a_sanitizer_that_says_nothing(self):
        self.program("compute-sanitizer", WATCHES)
        status, report = self.check()
        self.assertEqual(status, 1, self.output)
        for name in ["memcheck", "memcheck rings", "memcheck jobs"]:
            step = self.step(report, name)
            self.assertEqual(step["status"], "failed")
            self.assertIn("has no summary", step["detail"])
        self.assertEqual(self.step(report, "random rings")["status"], "passed")

    def test_a_target_that_is_missed(self):
        self.program("cuda_bench", BENCH % ("0.1", "false"))
        status, report = self.check()
        self.assertEqual(status, 1, self.output)
        self.assertEqual(self.step(report, "benchmarks")["status"], "passed")
        self.assertEqual(self.step(report, "targets of benchmarks")["status"], "failed")

    def test_a_target_beside_another_contender_that_is_missed(self):
        compared = '"comparisons": [{"than": "alone", "times": 2.5, "more_ns": 3000}]'
        self.program("live_bench",
                     (BENCH % ("0.1", "false")).replace('"least_ratio": 0.5', compared))
        status, report = self.check()
        self.assertEqual(status, 1, self.output)
        missed = self.step(report, "targets of live benchmarks")["missed"]
        self.assertEqual(missed, ['q / c: 2.50 times and +3.00 us beside "alone", 0.01 us'])

    def test_a_quick_run_judges_no_targets(self):
        self.program("cuda_bench", BENCH % ("0.1", "false"))
        status, report = self.check("--quick")
        self.assertEqual(status, 0, self.output)
        self.assertNotIn("targets of benchmarks", [step["name"] for step in report["steps"]])


def is_running(process):
    """Whether the process exists and is not a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


if __name__ == "__main__":
    unittest.main()
