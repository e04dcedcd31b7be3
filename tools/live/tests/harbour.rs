//! The ship simulator on its built-in harbour, in real time, with a client that steers. The environment variable
//! `RRBSOLVER_SHIP_WAVES` names the simulator; without it, there is nothing to test.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rrbsolver_live::Server;
use tungstenite::{Message, WebSocket, client};

/// The simulator, its server, and a page.
struct Harbour {
    simulator: Child,
    page: WebSocket<TcpStream>,
}

impl Harbour {
    fn start(program: &str) -> Self {
        let mut simulator = Command::new(program)
            .args(["--live", "1"])
            .env("OMP_WAIT_POLICY", "passive")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (output, input) = (simulator.stdout.take().unwrap(), simulator.stdin.take().unwrap());
        let server = Server::start(Server::listen(0).unwrap(), output, input).unwrap();
        let address = ("127.0.0.1", server.port());
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let page = client(format!("ws://127.0.0.1:{}/frames", server.port()), stream).unwrap().0;
        Self { simulator, page }
    }

    /// Receives a frame and returns its JSON.
    fn receive(&mut self) -> String {
        loop {
            match self.page.read() {
                Ok(Message::Binary(bytes)) => {
                    let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
                    return String::from_utf8(bytes[4..4 + length].to_vec()).unwrap();
                }
                Ok(_) => {}
                // A system that pauses the process interrupts calls that have a time limit.
                Err(tungstenite::Error::Io(error)) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn send(&mut self, command: &str) {
        self.page.send(Message::text(command)).unwrap();
    }
}

impl Drop for Harbour {
    fn drop(&mut self) {
        // The test has ended either way; a simulator that has ended before cannot be killed.
        let _ = self.simulator.kill();
        let _ = self.simulator.wait();
    }
}

/// Returns the number of a key. Keys of the frame stand before those of its ships.
fn number(json: &str, key: &str) -> f64 {
    let start = json.find(&format!("\"{key}\":")).unwrap() + key.len() + 3;
    json[start..].split([',', '}', ']']).next().unwrap().parse().unwrap()
}

/// Other programs may take the processor for some time, so the best of several measurements decides.
#[test]
fn the_harbour_runs_in_real_time_and_obeys_at_once() {
    let Ok(program) = std::env::var("RRBSOLVER_SHIP_WAVES") else {
        eprintln!("skipped: RRBSOLVER_SHIP_WAVES does not name the program ship_waves");
        return;
    };
    let mut harbour = Harbour::start(&program);
    harbour.receive();

    let (mut factor, mut frames, mut seconds) = (0.0_f64, 0, 0);
    // A second contains a whole number of steps of 0.04 s, so the factor is 1 up to one step.
    while seconds < 40 && (frames < 25 || factor <= 0.95) {
        seconds += 1;
        let (start, before) = (Instant::now(), number(&harbour.receive(), "t"));
        let (mut count, mut t) = (0, before);
        while start.elapsed() < Duration::from_secs(1) {
            t = number(&harbour.receive(), "t");
            count += 1;
        }
        frames = frames.max(count);
        factor = factor.max((t - before) / start.elapsed().as_secs_f64());
    }
    assert!(frames >= 25, "{frames} frames per second");
    assert!(factor > 0.95, "{factor} simulated seconds per second");

    let mut shortest = Duration::MAX;
    for angle in 1..=10 {
        let start = Instant::now();
        harbour.send(&format!("rudder 1 {angle}"));
        while number(&harbour.receive(), "rudder") != f64::from(angle) {
            assert!(start.elapsed() < Duration::from_secs(60), "the ship does not obey");
        }
        shortest = shortest.min(start.elapsed());
    }
    assert!(shortest < Duration::from_millis(150), "{shortest:?}");
    println!("{frames} frames per second, {factor:.2} simulated seconds per second, command to frame {shortest:?}");
}
