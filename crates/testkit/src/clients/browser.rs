//! Chromium without a window, driven by its
//! [`DevTools` protocol](https://chromedevtools.github.io/devtools-protocol/): pages at any width and in any colour
//! scheme, with every request and every message of the console.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use birdhouse_regtest::program::find_program;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::error::{Error, Result};

/// The path below the user's cache folder where `scripts/peers` puts the script.
const CACHED_AXE: &str = "birdhouse/axe-core-4.14.1/node_modules/axe-core/axe.min.js";
/// Where Debian's package has it.
const CHROMIUM: &str = "/usr/bin/chromium";
const PATIENCE: Duration = Duration::from_mins(1);
/// Interval of looks at a file or page that is not ready.
const POLL: Duration = Duration::from_millis(20);

/// A running Chromium with one page. Dropping it ends the process.
#[derive(Debug)]
pub struct Browser {
    child: Child,
    socket: WebSocket<TcpStream>,
    next: u64,
    session: String,
    events: Vec<Event>,
    _profile: tempfile::TempDir,
}

/// An event that a page has caused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A request for this address.
    Request(String),
    /// A message of the console, or an error of a script.
    Message(String),
}

/// A look at a page: the size of the window, and the colour scheme that its owner prefers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Width and height in pixels.
    pub size: (u32, u32),
    /// True for dark pages.
    pub is_dark: bool,
}

/// Returns the path of the script of axe-core: `$AXE_CORE`, else the one that `scripts/peers axe-core` installed.
///
/// # Errors
/// [`Error::Regtest`] if there is neither.
pub fn find_axe() -> Result<PathBuf> {
    Ok(find_program("axe-core", "AXE_CORE", None, CACHED_AXE, "scripts/peers axe-core")?)
}

/// Returns the path of Chromium: `$CHROMIUM`, else the one of Debian's package.
///
/// # Errors
/// [`Error::Unnamed`] if there is neither.
pub fn find_chromium() -> Result<PathBuf> {
    let named = std::env::var_os("CHROMIUM").filter(|value| !value.is_empty());
    let path = named.map_or_else(|| PathBuf::from(CHROMIUM), PathBuf::from);
    path.is_file().then_some(path).ok_or(Error::Unnamed { program: "chromium", variable: "CHROMIUM" })
}

impl Browser {
    /// Starts Chromium with an empty page.
    ///
    /// # Errors
    /// It is not installed, or does not start.
    pub fn start() -> Result<Self> {
        let profile = tempfile::tempdir()?;
        let child = Command::new(find_chromium()?)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"])
            .args(["--no-first-run", "--disable-background-networking", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut child = Ended(Some(child));
        let (port, path) = endpoint(&profile.path().join("DevToolsActivePort"))?;
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (socket, _) = client(format!("ws://127.0.0.1:{port}{path}"), stream).map_err(protocol)?;
        let child = child.0.take().expect("taken once");
        let mut browser =
            Self { child, socket, next: 0, session: String::new(), events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }))?;
        let attached =
            browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }))?;
        attached["sessionId"].as_str().unwrap_or_default().clone_into(&mut browser.session);
        for domain in ["Page.enable", "Network.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, json!({}))?;
        }
        Ok(browser)
    }

    /// Sets size and colour scheme.
    pub fn look(&mut self, look: Look) -> Result<()> {
        let ((width, height), scheme) = (look.size, if look.is_dark { "dark" } else { "light" });
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", metrics)?;
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features)?;
        Ok(())
    }

    /// Switches scripts of pages off.
    pub fn disable_scripts(&mut self) -> Result<()> {
        self.call("Emulation.setScriptExecutionDisabled", json!({ "value": true }))?;
        Ok(())
    }

    /// Runs a script in every page that is opened from now on, before any script of the page.
    pub fn run_first(&mut self, script: &str) -> Result<()> {
        self.call("Page.addScriptToEvaluateOnNewDocument", json!({ "source": script }))?;
        Ok(())
    }

    /// Opens a page; returns when it and everything that it asks for has been loaded.
    pub fn open(&mut self, url: &str) -> Result<()> {
        // An anchor would not load the page again.
        self.call("Page.navigate", json!({ "url": "about:blank" }))?;
        self.wait_for("location.href === 'about:blank'")?;
        self.events.clear();
        self.call("Page.navigate", json!({ "url": url }))?;
        self.wait_for("location.href !== 'about:blank' && document.readyState === 'complete'")
    }

    /// Waits until an expression is true.
    pub fn wait_for(&mut self, expression: &str) -> Result<()> {
        let began = Instant::now();
        // While a page is left, there is none to ask.
        while !self.evaluate(expression).is_ok_and(|value| value == json!(true)) {
            if began.elapsed() > PATIENCE {
                return Err(Error::Protocol(format!("this never became true: {expression}")));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Returns the value of an expression, or of the promise that it is.
    pub fn evaluate(&mut self, expression: &str) -> Result<Value> {
        let params = json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut answer = self.call("Runtime.evaluate", params)?;
        match answer.get("exceptionDetails") {
            Some(details) => Err(Error::Protocol(details.to_string())),
            None => Ok(answer["result"]["value"].take()),
        }
    }

    /// Returns a picture of the whole page, as PNG in base64.
    pub fn picture(&mut self) -> Result<String> {
        let params = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.call("Page.captureScreenshot", params)?;
        Ok(picture["data"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the events since the page was opened.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Calls a method; returns its result.
    #[expect(clippy::needless_pass_by_value, reason = "call sites pass json!({..})")]
    fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.next += 1;
        let mut request = json!({ "id": self.next, "method": method, "params": params });
        if !self.session.is_empty() {
            request["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(request.to_string())).map_err(protocol)?;
        loop {
            let Message::Text(text) = self.socket.read().map_err(protocol)? else { continue };
            let mut message: Value = serde_json::from_str(&text).map_err(|error| Error::Protocol(error.to_string()))?;
            if message["id"] == json!(self.next) {
                return match message.get("error") {
                    Some(error) => Err(Error::Protocol(format!("{method}: {error}"))),
                    None => Ok(message["result"].take()),
                };
            }
            self.events.extend(event(&message));
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Both fail only after the process has ended and was waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that ends unless it is taken.
struct Ended(Option<Child>);

impl Drop for Ended {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn protocol(error: impl std::fmt::Display) -> Error {
    Error::Protocol(error.to_string())
}

/// Waits for the file that names port and path.
fn endpoint(file: &Path) -> Result<(u16, String)> {
    let began = Instant::now();
    loop {
        let text = fs::read_to_string(file).unwrap_or_default();
        if let Some((port, path)) = text.trim().split_once('\n')
            && let Ok(port) = port.parse()
        {
            return Ok((port, path.to_owned()));
        }
        if began.elapsed() > PATIENCE {
            return Err(Error::Protocol("Chromium did not start".into()));
        }
        std::thread::sleep(POLL);
    }
}

fn event(message: &Value) -> Option<Event> {
    let params = &message["params"];
    match message["method"].as_str()? {
        "Network.requestWillBeSent" => Some(Event::Request(params["request"]["url"].as_str()?.to_owned())),
        "Runtime.consoleAPICalled" => Some(Event::Message(params["args"].to_string())),
        "Runtime.exceptionThrown" => Some(Event::Message(params["exceptionDetails"].to_string())),
        "Log.entryAdded" => Some(Event::Message(params["entry"]["text"].to_string())),
        _ => None,
    }
}
