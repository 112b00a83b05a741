"""A headless Chromium, driven over a pipe (DevTools protocol): no network, no port, no other package.

  with Browser() as browser:
      browser.open("build/explorer/explorer.html", fragment="tp=2")
      value = browser.run("await ready; return 1 + 1")         # JavaScript, of an async function's body
      browser.picture("wide.png", width=1280, height=900, dark=False)
"""
import base64
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp()
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
                 "--remote-debugging-pipe",
                 f"--user-data-dir={self.folder}", "--hide-scrollbars"]
        words = " ".join([f"'{find()}'", *flags, "about:blank", f"3<&{to_browser}", f"4>&{from_browser}"])
        self.process = subprocess.Popen(["bash", "-c", "exec " + words], pass_fds=(to_browser, from_browser),
                                        stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.number, self.left, self.session, self.errors = 0, b"", None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Log.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(20)
        os.close(self.write_end)
        os.close(self.read_end)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- messages end with a zero byte ----
    def message(self):
        while b"\0" not in self.left:
            more = os.read(self.read_end, 1 << 20)
            if not more:
                raise RuntimeError("the browser has ended")
            self.left += more
        text, self.left = self.left.split(b"\0", 1)
        return json.loads(text)

    # What the page complains of, in its console or by an exception, is kept in `errors`.
    def hear(self, said):
        method, params = said.get("method"), said.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(params["exceptionDetails"]["text"])
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])

    def call(self, method, **params):
        self.number += 1
        said = {"id": self.number, "method": method, "params": params}
        if self.session:
            said["sessionId"] = self.session
        text = json.dumps(said).encode() + b"\0"
        while text:
            text = text[os.write(self.write_end, text):]
        while True:
            answer = self.message()
            self.hear(answer)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    # ---- what tests ask for ----
    def open(self, path, fragment=""):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"file://{os.path.abspath(path)}#{fragment}")
        self.run("while (document.readyState !== 'complete') await new Promise(f => setTimeout(f, 20));"
                 "if (typeof ready !== 'undefined') await ready;")              # the explorer's, and no other page's

    def run(self, body):
        answer = self.call("Runtime.evaluate", expression=f"(async () => {{ {body} }})()", awaitPromise=True,
                           returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def looks(self, width, height, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def picture(self, path, width, height, dark=False, whole=True):
        self.looks(width, height, dark)
        data = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole,
                         **({"clip": {"x": 0, "y": 0, "width": width,
                                      "height": self.run("return document.documentElement.scrollHeight"), "scale": 1}}
                            if whole else {}))["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
