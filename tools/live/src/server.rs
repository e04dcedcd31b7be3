//! The server: threads for frames, commands, and connections.

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::frames::{Newest, read_frame};
use crate::pages;
use crate::requests::send_refusal;

/// Maximum number of connections at a time.
const CONNECTIONS: usize = 32;
/// Maximum number of commands that wait for the simulator.
const COMMANDS: usize = 256;

/// A running server.
pub struct Server {
    port: u16,
    frames: JoinHandle<io::Result<()>>,
}

impl Server {
    /// Reserves a port of 127.0.0.1; 0 selects a free one.
    pub fn listen(port: u16) -> io::Result<TcpListener> {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
    }

    /// Starts to serve. `output` is the standard output of the simulator, `input` its standard input.
    pub fn start(
        listener: TcpListener,
        output: impl Read + Send + 'static,
        input: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let port = listener.local_addr()?.port();
        let newest = Arc::new(Newest::default());
        let (sender, receiver) = sync_channel(COMMANDS);
        thread::spawn(move || write_commands(input, &receiver));
        let shown = Arc::clone(&newest);
        thread::spawn(move || accept_all(&listener, port, &shown, &sender));
        let frames = thread::spawn(move || {
            let result = read_frames(output, &newest);
            newest.end();
            result
        });
        Ok(Self { port, frames })
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Waits until the simulator's output ends.
    pub fn wait(self) -> io::Result<()> {
        self.frames.join().unwrap_or_else(|_| Err(io::Error::other("the thread that reads frames panicked")))
    }
}

fn read_frames(output: impl Read, newest: &Newest) -> io::Result<()> {
    let mut output = BufReader::with_capacity(1 << 20, output);
    while let Some(message) = read_frame(&mut output)? {
        newest.put(message);
    }
    Ok(())
}

/// Writes each command as a line. The simulator may have ended: then its output ends too, and the server with it.
fn write_commands(mut input: impl Write, commands: &Receiver<String>) {
    while let Ok(command) = commands.recv() {
        if writeln!(input, "{command}").and_then(|()| input.flush()).is_err() {
            return;
        }
    }
}

/// Serves each connection on a thread of its own.
fn accept_all(listener: &TcpListener, port: u16, newest: &Arc<Newest>, commands: &SyncSender<String>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => serve_on_thread(stream, port, newest, commands, &open),
            Err(error) => {
                eprintln!("rrbsolver-live: a connection failed: {error}");
                // Without free file descriptors, the next attempt fails at once too.
                thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

fn serve_on_thread(
    mut stream: TcpStream,
    port: u16,
    newest: &Arc<Newest>,
    commands: &SyncSender<String>,
    open: &Arc<AtomicUsize>,
) {
    let place = Place::take(open);
    if place.number > CONNECTIONS {
        // A failure to refuse needs no answer: the connection is closed either way.
        let _ = send_refusal(&mut stream, ("503 Service Unavailable", "too many connections"));
        return;
    }
    let (newest, commands) = (Arc::clone(newest), commands.clone());
    let served = thread::Builder::new().spawn(move || {
        let _place = place;
        let peer = stream.peer_addr();
        if let Some(reason) = pages::serve(stream, port, &newest, &commands) {
            let peer = peer.map_or_else(|_| "unknown".to_string(), |peer| peer.to_string());
            eprintln!("rrbsolver-live: connection {peer} ended: {reason}");
        }
    });
    if let Err(error) = served {
        eprintln!("rrbsolver-live: no thread for a connection: {error}");
    }
}

/// One of the open connections.
struct Place {
    open: Arc<AtomicUsize>,
    number: usize,
}

impl Place {
    fn take(open: &Arc<AtomicUsize>) -> Self {
        Self { open: Arc::clone(open), number: open.fetch_add(1, Ordering::Relaxed) + 1 }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}
