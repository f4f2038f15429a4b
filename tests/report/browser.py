# SPDX-License-Identifier: Apache-2.0
"""A real browser, driven over the DevTools pipe: no package but Chromium itself."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

EXECUTABLE = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

START = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3])
os.dup2(read, 3)
os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Becomes the browser, which reads commands from descriptor 3 and writes to 4."""


class Browser:
    """One page of a headless Chromium, and all that it asked for and complained of."""

    def __init__(self):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-c", START, str(to_browser), str(from_browser), EXECUTABLE),
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--remote-debugging-pipe",
                f"--user-data-dir={self._profile.name}",
                "about:blank",
            ],
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer, self._number, self._session = b"", 0, None
        self.events = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next(60)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self, seconds):
        end = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0, end - time.monotonic()))
            if not ready:
                raise TimeoutError("the browser does not answer")
            read = os.read(self._read, 1 << 20)
            if not read:
                raise ConnectionError("the browser has gone")
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def open(self, path, width=1280, height=900, dark=False, mobile=False):
        self.events.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=mobile,
        )
        scheme = "dark" if dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.send("Page.navigate", url=Path(path).resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next(60))
        self.run("document.fonts.ready.then(() => true)")

    def run(self, script):
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    @property
    def requests(self):
        """Addresses that the page asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    @property
    def complaints(self):
        """Errors, warnings and anything else that the console would show."""
        methods = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in methods]

    def screenshot(self, path, whole=False):
        picture = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(picture["data"]))

    def pdf(self):
        return base64.b64decode(self.send("Page.printToPDF", preferCSSPageSize=True)["data"])

    def close(self):
        for descriptor in (self._write, self._read):
            os.close(descriptor)
        try:
            self._process.wait(10)  # without its pipe the browser ends
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._profile.cleanup()
