"""Records of ServiceNow: a work note, and attachments of the record.

Work notes are a journal and cannot be edited, so a second run posts nothing unless the
report changed. `[code]` in a note would be rendered as HTML. A number (INC0012345) is
first looked up among all tasks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ncclforensics.model.errors import UsageError
from ncclforensics.tickets import urls
from ncclforensics.tickets.model import Auth, Body, Comment, File, Plan, Request
from ncclforensics.tickets.post import fitting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ncclforensics.tickets.post import Post

LIMIT = 4_000
RECORD = "{record}"  # placeholder for the sys_id that is looked up
_ID = r"[0-9a-f]{32}"
_FORM = re.compile(rf"/(\w+)\.do\?(?:.*&)?sys_id=({_ID})")
_RECORD = re.compile(rf"/record/(\w+)/({_ID})")
_NUMBER = re.compile(r"(?:servicenow:|snow:)?([A-Z]{2,8}\d{5,})")
_ASKED = re.compile(r"/(\w+)\.do\?(?:.*&)?sysparm_query=number=([A-Z]{2,8}\d{5,})")


def plan(ticket: str, post: Post, env: Mapping[str, str]) -> Plan | None:
    """Return the plan for a record of ServiceNow, None if it is not one."""
    parts = urls.split(ticket)
    table, record, number = "task", RECORD, ""
    if parts:
        whole = unquote(unquote(f"{parts.path}?{parts.query}"))
        found = _FORM.search(whole.replace("uri=", "/")) or _RECORD.search(whole)
        if found:
            table, record = found.groups()
        elif asked := _ASKED.search(whole.replace("uri=", "/")):
            table, number = asked.groups()
        else:
            return None
        site = urls.base(parts)
    else:
        short = _NUMBER.fullmatch(ticket)
        if short is None:
            return None
        number, site = short[1], _site(ticket, env)
    table_url = f"{site}/api/now/table"
    own = f"{table_url}/{table}/{record}"
    journal = f"element_id={record}^element=work_notes^ORDERBYDESCsys_created_on"
    lookup = Request(
        "GET",
        f"{table_url}/{table}",
        params={"sysparm_query": f"number={number}", "sysparm_fields": "sys_id"},
    )
    there = {"sysparm_query": f"table_sys_id={record}", "sysparm_fields": "file_name"}

    def upload(file: File) -> Request:
        params = {
            "table_name": table,
            "table_sys_id": record,
            "file_name": file.name,
        }
        return Request(
            "POST",
            f"{site}/api/now/attachment/file",
            params=params,
            content=file.data,
            headers={"Content-Type": file.media},
        )

    page = f"{site}/nav_to.do?uri=task.do?sysparm_query=number={number}"
    return Plan(
        service="ServiceNow",
        where=f"{table} {number or record}",
        url=ticket if parts else page,
        auth=Auth(
            "Bearer or Basic",
            ("SERVICENOW_TOKEN", "SERVICENOW_PASSWORD"),
            user=("SERVICENOW_USERNAME", "SERVICENOW_USER"),
            bearer=("SERVICENOW_TOKEN",),
            password=("SERVICENOW_PASSWORD",),
            netrc=True,
        ),
        key=post.key,
        limit=LIMIT,
        bodies=fitting(post.plain(), LIMIT, room=300),
        headers={"Accept": "application/json"},
        resolve=(lookup, _first) if number else None,
        first_page=Request(
            "GET",
            f"{table_url}/sys_journal_field",
            params={"sysparm_query": journal, "sysparm_fields": "sys_id,value"},
        ),
        comments=lambda answer: map(_entry, answer["result"]),
        create=lambda body, mark: Request(
            "PATCH", own, {"work_notes": _text(body, mark)}
        ),
        made=lambda _: Comment(record, "", url=ticket if parts else None),
        files=post.files(),
        attached=(
            Request("GET", f"{site}/api/now/attachment", params=there),
            lambda answer: {i["file_name"]: i["file_name"] for i in answer["result"]},
        ),
        upload=upload,
        uploaded=lambda answer: str(answer["result"]["file_name"]),
        mention=lambda refs: "Attached: " + ", ".join(refs.values()),
    )


def _site(ticket: str, env: Mapping[str, str]) -> str:
    """Return the URL of the instance in SERVICENOW_INSTANCE; UsageError without it."""
    name = env.get("SERVICENOW_INSTANCE")
    if not name:
        raise UsageError(f"{ticket}: set SERVICENOW_INSTANCE, or give the record's URL")
    site = name if "://" in name else f"https://{name}"
    if "." not in site and not urls.local(site.partition("://")[2].partition(":")[0]):
        site += ".service-now.com"
    urls.split(site)
    return site.rstrip("/")


def _first(answer: Any) -> str:
    """Return the sys_id of the first record; ValueError if there is none."""
    if not answer["result"]:
        raise ValueError("no such record, or the token has no access to it")
    return str(answer["result"][0]["sys_id"])


def _entry(item: Any) -> Comment:
    return Comment(str(item["sys_id"]), item["value"])


def _text(body: Body, mark: str) -> str:
    return re.sub(r"(?i)\[(/?code)\]", r"[ \1]", f"{body.text}\n\n{mark}")
