//! A file as an answer: read piece by piece, by threads that may block.

use std::fs::File;
use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::HttpResponse;
use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::http::header;
use actix_web::rt::task::{JoinHandle, spawn_blocking};
use actix_web::web::Bytes;

/// What is read at a time, and held for each answer under way.
const PIECE_BYTES: u64 = 1 << 18;

/// A file to answer with.
pub(crate) struct Download {
    file: File,
    bytes: u64,
    name: String,
}

/// The file while it is sent.
struct Sending {
    bytes: u64,
    left: u64,
    state: State,
}

enum State {
    Waiting(File),
    Reading(JoinHandle<io::Result<(File, Vec<u8>)>>),
    Ended,
}

impl Download {
    /// A file that does not change, which the client is told to save as `name`.
    pub(crate) fn new(file: File, name: &str) -> io::Result<Download> {
        Ok(Download { bytes: file.metadata()?.len(), file, name: name.to_owned() })
    }

    pub(crate) fn response(self) -> HttpResponse {
        let Download { file, bytes, name } = self;
        let sending = Sending { bytes, left: bytes, state: State::Waiting(file) };
        HttpResponse::Ok()
            .content_type("application/octet-stream")
            .insert_header((header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")))
            .body(BoxBody::new(sending))
    }
}

impl MessageBody for Sending {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.bytes)
    }

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes, io::Error>>> {
        loop {
            match std::mem::replace(&mut self.state, State::Ended) {
                State::Waiting(file) if self.left > 0 => {
                    let wanted = self.left.min(PIECE_BYTES);
                    self.state = State::Reading(spawn_blocking(move || read(file, wanted)));
                }
                State::Waiting(_) | State::Ended => return Poll::Ready(None),
                State::Reading(mut reading) => {
                    let Poll::Ready(read) = Pin::new(&mut reading).poll(context) else {
                        self.state = State::Reading(reading);
                        return Poll::Pending;
                    };
                    return Poll::Ready(Some(read.map_err(io::Error::other).flatten().map(
                        |(file, piece)| {
                            self.left -= piece.len() as u64;
                            self.state = State::Waiting(file);
                            piece.into()
                        },
                    )));
                }
            }
        }
    }
}

/// The next `wanted` bytes.
fn read(mut file: File, wanted: u64) -> io::Result<(File, Vec<u8>)> {
    let mut piece = Vec::new();
    file.by_ref().take(wanted).read_to_end(&mut piece)?;
    if piece.len() as u64 == wanted { Ok((file, piece)) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}
