"""A headless Chromium, driven by the WebDriver protocol."""

import json
import shutil
import socket
import subprocess
import time
import urllib.request

import pytest

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,1600",
]


def free_port():
    """A port of this machine that nothing listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Browser:
    """Opens pages and runs scripts in them.

    Args:
        profile: New folder for the browser's own files.
    """

    def __init__(self, profile):
        self.driver = shutil.which("chromedriver")
        self.binary = shutil.which("chromium") or shutil.which("chromium-browser")
        self.binary = self.binary or shutil.which("google-chrome")
        if not (self.driver and self.binary):
            pytest.skip("needs chromium and chromedriver (Debian: chromium-driver)")
        self.profile = profile

    def __enter__(self):
        port = free_port()
        self.process = subprocess.Popen(
            [self.driver, f"--port={port}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.address = f"http://127.0.0.1:{port}"
        self._wait_until_ready()
        options = {
            "binary": self.binary,
            "args": [*_FLAGS, f"--user-data-dir={self.profile}"],
        }
        capabilities = {"alwaysMatch": {"goog:chromeOptions": options}}
        session = self._post("/session", {"capabilities": capabilities})
        self.address += f"/session/{session['sessionId']}"
        return self

    def __exit__(self, *error):
        try:
            request = urllib.request.Request(self.address, method="DELETE")
            urllib.request.urlopen(request, timeout=30)
        finally:
            self.process.terminate()
            self.process.wait(30)

    def open(self, address):
        """Opens a page."""
        self._post("/url", {"url": address})

    def run(self, script):
        """What a script returns."""
        return self._post("/execute/sync", {"script": script, "args": []})

    def wait_for(self, script, seconds=120):
        """What a script returns, as soon as that is true."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(script)
            if value:
                return value
            time.sleep(0.2)
        raise TimeoutError(f"never true: {script}")

    def command(self, name, parameters):
        """What a command of the DevTools protocol returns."""
        body = {"cmd": name, "params": parameters}
        return self._post("/goog/cdp/execute", body)

    def screenshot(self):
        """A PNG file's content."""
        import base64

        with urllib.request.urlopen(self.address + "/screenshot", timeout=60) as answer:
            return base64.b64decode(json.load(answer)["value"])

    def _wait_until_ready(self):
        for _ in range(300):
            try:
                urllib.request.urlopen(self.address + "/status", timeout=10).close()
                return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError("chromedriver did not start")

    def _post(self, path, body):
        request = urllib.request.Request(
            self.address + path,
            data=json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
