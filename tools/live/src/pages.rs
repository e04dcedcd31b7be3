//! A connection: a request, or a page that receives frames and sends commands.

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

use tungstenite::protocol::{Message, Role, WebSocket, WebSocketConfig};

use crate::frames::Newest;
use crate::requests::{Request, accept, read_request, send_page, send_refusal, send_upgrade};

/// A connection is closed if no request arrives, or if nothing can be sent, for this time.
const PATIENCE: Duration = Duration::from_secs(5);
/// Waiting time for a command before the next frame is sent. It delays a frame by as much.
const COMMAND_WAIT: Duration = Duration::from_millis(5);
/// Maximum length of a command in bytes.
const COMMAND_LIMIT: usize = 200;

/// Serves a connection until it ends. Returns the reason for a log line, or `None` for a served request.
pub fn serve(mut stream: TcpStream, port: u16, newest: &Newest, commands: &SyncSender<String>) -> Option<String> {
    match answer(&mut stream, port) {
        Ok(None) => None,
        Ok(Some(rest)) => Some(
            stream_frames(stream, rest, newest, commands)
                .err()
                .map_or_else(|| "the simulation has ended".to_string(), |error| reason(&error)),
        ),
        Err(error) => Some(reason(&error.into())),
    }
}

/// Returns the reason for a log line. An expired time limit has the misleading text "temporarily unavailable".
fn reason(error: &tungstenite::Error) -> String {
    match error {
        tungstenite::Error::Io(error) if is_timeout(error) => format!("it received nothing for {PATIENCE:?}"),
        tungstenite::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Returns whether a call with a time limit may be repeated: its time is over, or a signal has interrupted it.
pub fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Answers the request of a connection. Returns the bytes after the request if it has opened a WebSocket.
fn answer(stream: &mut TcpStream, port: u16) -> io::Result<Option<Vec<u8>>> {
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    let Some((request, rest)) = read_request(stream, PATIENCE)? else { return Ok(None) };
    match accept(&request, port) {
        Ok(Request::Page) => send_page(stream, port).map(|()| None),
        Ok(Request::Socket(key)) => send_upgrade(stream, &key).map(|()| Some(rest)),
        Err(refusal) => send_refusal(stream, refusal).map(|()| None),
    }
}

/// Sends each newest frame and forwards commands until the simulation or the connection ends.
fn stream_frames(
    stream: TcpStream,
    rest: Vec<u8>,
    newest: &Newest,
    commands: &SyncSender<String>,
) -> tungstenite::Result<()> {
    stream.set_read_timeout(Some(COMMAND_WAIT))?;
    let config = WebSocketConfig::default().max_message_size(Some(COMMAND_LIMIT)).max_frame_size(Some(COMMAND_LIMIT));
    let mut socket = WebSocket::from_partially_read(stream, rest, Role::Server, Some(config));
    let mut seen = 0;
    while !newest.ended() {
        match socket.read() {
            Ok(Message::Text(command)) => forward(&command, commands),
            Ok(_) => {}
            Err(tungstenite::Error::Io(error)) if is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
        if let Some((count, message)) = newest.after(seen) {
            seen = count;
            match socket.send(Message::Binary(message)) {
                // The rest of the message is buffered, and the next call sends it.
                Err(tungstenite::Error::Io(error)) if error.kind() == ErrorKind::Interrupted => {}
                sent => sent?,
            }
        }
    }
    socket.close(None)
}

/// Forwards a command, which must be one line of printable ASCII: the simulator reads lines.
fn forward(command: &str, commands: &SyncSender<String>) {
    if !command.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
        eprintln!("rrbsolver-live: ignored a command that is not one line of printable ASCII: {command:?}");
        return;
    }
    if let Err(TrySendError::Full(command)) = commands.try_send(command.to_string()) {
        eprintln!("rrbsolver-live: ignored \"{command}\": the simulator does not read its commands");
    }
}
