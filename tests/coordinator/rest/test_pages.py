"""Pages: who may see them, forms of other sites, names of any text, whole HTML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from fabric.control import control_pb2 as pb
from fabric.control.api import ENDED
from tests.support.wait import wait_until

EVIL = "<script>alert(1)</script>'\"&"
VOID = {"meta", "link", "input", "br", "path", "rect"}


class Checked(HTMLParser):
    """Refuses tags that are not closed, scripts, and anything from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag != "script"
        for name, value in attrs:
            assert not name.startswith("on")
            assert name != "style"
            assert "//" not in (value or "") or name in ("xmlns", "value", "content")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def text_of(page: httpx.Response) -> str:
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert page.headers["x-content-type-options"] == "nosniff"
    checked = Checked()
    checked.feed(page.text)
    assert not checked.open
    return " ".join(" ".join(checked.texts).split())


@pytest.fixture
def browser(served: SimpleNamespace) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=served.url, timeout=120) as client:
        answer = client.post("/login", data={"token": f" {served.token('submit')}\n"})
        assert answer.status_code == 303
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        yield client


def word_of(page: httpx.Response) -> str:
    found = re.search(r'name="word" value="([^"]+)"', page.text)
    assert found is not None
    return found[1]


@pytest.fixture
def job_id(served: Any, agents: Any, submit: Any) -> str:
    made = str(submit(name=EVIL).json()["job_id"])
    wait_until(lambda: served.runtime.status(pb.JobRequest(job_id=made)).state in ENDED)
    return made


def test_without_a_token_there_is_only_the_door(served: Any, browser: httpx.Client) -> None:
    for path in ("/jobs", "/jobs/x", "/agents"):
        for headers in ({}, {"Cookie": "fabric_session=nope"}):
            answer = httpx.get(served.url + path, headers=headers, timeout=60.0)
            assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert "Log in" in text_of(httpx.get(f"{served.url}/login", timeout=60.0))
    wrong = httpx.post(f"{served.url}/login", data={"token": EVIL}, timeout=60.0)
    assert wrong.status_code == 401
    assert "not one of this fabric" in text_of(wrong)
    assert "set-cookie" not in wrong.headers
    browser.post("/logout")
    assert browser.get("/jobs").status_code == 303


def test_jobs_and_a_job(browser: httpx.Client, job_id: str) -> None:
    page = text_of(browser.get("/jobs"))
    assert EVIL in page
    assert "Log out <ann>" in page
    assert "job finished" in page
    page = text_of(browser.get(f"/jobs/{job_id}"))
    for shown in (EVIL, "finished", "by/exchange", "<scan> & more", "Tasks", "job submitted"):
        assert shown in page
    answer = browser.get(f"/jobs/{job_id}", params={"notice": EVIL})
    assert EVIL in text_of(answer)
    assert text_of(browser.get("/jobs/nope")).endswith("to the jobs")
    assert "no jobs that are failed" in text_of(browser.get("/jobs?state=failed"))


def test_lost_agents_and_cancelled_jobs_are_a_click_away(
    browser: httpx.Client, served: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, gone = (pb.AgentStatus(agent_id=f"a-{s}", state=s) for s in ("active", "failed"))
    monkeypatch.setattr(
        served.runtime, "list_agents",
        lambda asked: pb.AgentList(agents=[there, gone] if asked.lost else [there]),
    )  # fmt: skip
    page = text_of(browser.get("/agents"))
    assert "a-active" in page
    assert "a-failed" not in page
    assert "1 lost lately" in page
    page = text_of(browser.get("/agents?lost=true"))
    assert "a-failed" in page
    assert "without the lost ones" in page
    jobs = [pb.JobStatus(job_id=f"job-{s}", state=s) for s in pb.JobState.values()]

    def list_jobs(asked: pb.ListRequest) -> pb.JobList:
        return pb.JobList(jobs=[job for job in jobs if job.state in asked.states])

    monkeypatch.setattr(served.runtime, "list_jobs", list_jobs)
    page = text_of(browser.get("/jobs"))
    assert f"job-{pb.JOB_CANCELLED} " not in page
    assert f"job-{pb.JOB_FAILED} " in page
    assert f"job-{pb.JOB_CANCELLED} " in text_of(browser.get("/jobs?state=cancelled"))


def test_agents_and_the_description(browser: httpx.Client, agents: Any, served: Any) -> None:
    page = text_of(browser.get("/agents"))
    assert "local:a" in page
    assert "0 of 4" in page
    page = text_of(browser.get("/docs"))
    assert "GET /api/v1/jobs List jobs, newest first" in page
    assert f"cat {served.home}/token" in page
    assert str(served.home) not in text_of(httpx.get(browser.base_url.join("/docs"), timeout=60.0))
    style = browser.get("/style.css")
    assert style.headers["content-type"].startswith("text/css")


def test_a_released_job_still_has_a_page(browser: httpx.Client, job_id: str) -> None:
    word = word_of(browser.get(f"/jobs/{job_id}"))
    answer = browser.post(f"/jobs/{job_id}/release", data={"word": word})
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job_id}")
    assert "released" in text_of(browser.get(f"/jobs/{job_id}"))


def test_forms_of_other_sites_change_nothing(
    served: Any, browser: httpx.Client, job_id: str
) -> None:
    for word in ("", "x", word_of(browser.get(f"/jobs/{job_id}"))[:-2]):
        answer = browser.post(f"/jobs/{job_id}/release", data={"word": word})
        assert answer.status_code == 401
        assert "not of this fabric's pages" in text_of(answer)
    with httpx.Client(base_url=served.url, timeout=60.0) as reader:
        reader.post("/login", data={"token": served.token("read")})
        word = word_of(reader.get(f"/jobs/{job_id}"))
        assert reader.post(f"/jobs/{job_id}/release", data={"word": word}).status_code == 403
    assert served.runtime.status(pb.JobRequest(job_id=job_id)).state == pb.JOB_FINISHED
    word = word_of(browser.get(f"/jobs/{job_id}"))
    assert browser.post(f"/jobs/{job_id}/nope", data={"word": word}).status_code == 404
    assert browser.post("/login", content=b"x" * 100_000).status_code == 401


def test_what_a_form_asked_for_and_was_refused_is_said(
    browser: httpx.Client, job_id: str, agents: Any
) -> None:
    word = word_of(browser.get("/agents"))
    answer = browser.post("/agents/nope%3Cb%3E/drain", data={"word": word})
    assert answer.headers["location"].startswith("/agents?notice=")
    assert 'class="error"' in browser.get(answer.headers["location"]).text


def test_a_restart_begins_where_the_form_says(
    served: Any, browser: httpx.Client, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[pb.RestartRequest] = []
    monkeypatch.setattr(served.runtime, "restart", asked.append)
    page = browser.get(f"/jobs/{job_id}")
    assert "<option>by</option>" in page.text
    data = {"word": word_of(page), "from_path": "by"}
    assert browser.post(f"/jobs/{job_id}/restart", data=data).status_code == 303
    assert asked == [pb.RestartRequest(job_id=job_id, from_path="by")]
