//! The messages of a stream of Arrow IPC, one at a time: each is measured before the decoder sees it.

use std::collections::VecDeque;
use std::io::{self, Read};
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::{Message, MessageHeader, RecordBatch as BatchHeader, root_as_message};
use arrow_schema::Schema;

use crate::error::FormatError;
use crate::table::{guarded, header_error};

/// The most that a record batch of a file, or all of its dictionaries, may take, as stored and once decompressed. A
/// batch is held whole while its rows are read.
pub const RECORD_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The longest head of a message. That of a schema of ten thousand columns is below 2 MiB.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What begins a message.
pub(crate) const CONTINUATION: [u8; 4] = [0xff; 4];

pub(crate) const CUT: &str = "a message that is cut off";

/// Why there is no further message.
pub(crate) enum Broken {
    Io(io::Error),
    TooLarge(usize),
    Bad(String),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Broken {
        Broken::Io(error)
    }
}

impl From<&str> for Broken {
    fn from(reason: &str) -> Broken {
        Broken::Bad(reason.to_owned())
    }
}

impl Broken {
    pub(crate) fn at_start(self, path: &Path, format: &str) -> FormatError {
        match self {
            Broken::Bad(found) => header_error(path, format, found),
            broken @ (Broken::Io(_) | Broken::TooLarge(_)) => broken.at_row(path, 0),
        }
    }

    /// `row` is the first row that was not read.
    pub(crate) fn at_row(self, path: &Path, row: u64) -> FormatError {
        let path = path.to_owned();
        match self {
            Broken::Io(reason) if reason.raw_os_error().is_some() => FormatError::Io { path, reason },
            Broken::Io(reason) => FormatError::Damaged { path, row, reason: reason.to_string() },
            Broken::TooLarge(limit) => FormatError::TooLarge { path, row, limit },
            Broken::Bad(reason) => FormatError::Damaged { path, row, reason },
        }
    }
}

/// A cursor over the record batches of a stream.
pub(crate) struct Messages {
    reader: Box<dyn Read + Send>,
    decoder: StreamDecoder,
    schema: Schema,
    records: VecDeque<RecordBatch>,
    ended: bool,
    bytes_max: usize,
    dictionary_bytes: u64,
}

impl Messages {
    /// Reads up to the schema. A record batch, and all dictionaries, may take `bytes_max` each.
    pub(crate) fn open(reader: Box<dyn Read + Send>, bytes_max: usize) -> Result<Messages, Broken> {
        let mut messages = Messages {
            reader,
            decoder: StreamDecoder::new(),
            schema: Schema::empty(),
            records: VecDeque::new(),
            ended: false,
            bytes_max,
            dictionary_bytes: 0,
        };
        let message = messages.message()?.ok_or("no schema")?;
        messages.schema = guarded(|| {
            let head = message.head().map_err(str::to_owned)?;
            let schema = head.header_as_schema().ok_or("a message that is no schema first")?;
            Ok::<Schema, String>(fb_to_schema(schema))
        })
        .map_err(Broken::Bad)?;
        messages.decode(message)?;
        Ok(messages)
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The next record batch; `None` at the end.
    pub(crate) fn next_record(&mut self) -> Result<Option<RecordBatch>, Broken> {
        loop {
            if let Some(record) = self.records.pop_front() {
                return Ok(Some(record));
            }
            if self.ended {
                return Ok(None);
            }
            match self.message()? {
                Some(message) => self.decode(message)?,
                None => {
                    self.ended = true;
                    // The decoder takes a message without a body with what follows it.
                    self.feed(Buffer::from_vec([CONTINUATION, [0; 4]].concat()))?;
                }
            }
        }
    }

    /// The next message as it is stored; `None` at the end.
    fn message(&mut self) -> Result<Option<Stored>, Broken> {
        let mut length = at_most(&mut *self.reader, 4)?;
        let mut bytes = length.clone();
        if length == CONTINUATION {
            length = at_most(&mut *self.reader, 4)?;
            bytes.extend_from_slice(&length);
        }
        let Some(&length) = length.first_chunk::<4>() else {
            // A stream may end without saying so.
            return if bytes.is_empty() { Ok(None) } else { Err(CUT.into()) };
        };
        let length = i32::from_le_bytes(length);
        if length == 0 {
            let rest = at_most(&mut *self.reader, 1)?;
            return if rest.is_empty() { Ok(None) } else { Err("bytes after the end of the stream".into()) };
        }
        let length = usize::try_from(length).map_err(|_| "a message of negative length")?;
        if length > HEAD_BYTES_MAX {
            return Err(Broken::Bad(format!("a message with a head of {length} bytes")));
        }
        let start = bytes.len();
        self.append(&mut bytes, length)?;
        let stored = Stored { bytes, head: start..start + length };
        let body = stored.head()?.bodyLength();
        let body = usize::try_from(body).map_err(|_| "a body of negative length")?;
        if body > self.bytes_max {
            return Err(Broken::TooLarge(self.bytes_max));
        }
        let Stored { mut bytes, head } = stored;
        bytes.reserve_exact(body);
        self.append(&mut bytes, body)?;
        Ok(Some(Stored { bytes, head }))
    }

    fn append(&mut self, bytes: &mut Vec<u8>, count: usize) -> Result<(), Broken> {
        let read = self.reader.by_ref().take(count as u64).read_to_end(bytes)?;
        if read == count { Ok(()) } else { Err(CUT.into()) }
    }

    fn decode(&mut self, message: Stored) -> Result<(), Broken> {
        let body = message.head.end;
        let head = message.head()?;
        let unpacked = message_bytes(&head, &message.bytes[body..])?;
        let mut held = unpacked;
        if head.header_type() == MessageHeader::DictionaryBatch {
            self.dictionary_bytes = self.dictionary_bytes.saturating_add(unpacked);
            held = self.dictionary_bytes;
        }
        if held > self.bytes_max as u64 {
            return Err(Broken::TooLarge(self.bytes_max));
        }
        self.feed(Buffer::from_vec(message.bytes))
    }

    fn feed(&mut self, mut bytes: Buffer) -> Result<(), Broken> {
        while !bytes.is_empty() {
            let record = guarded(|| self.decoder.decode(&mut bytes)).map_err(Broken::Bad)?;
            self.records.extend(record);
        }
        Ok(())
    }
}

/// A message with the lengths before it.
struct Stored {
    bytes: Vec<u8>,
    head: std::ops::Range<usize>,
}

impl Stored {
    fn head(&self) -> Result<Message<'_>, &'static str> {
        root_as_message(&self.bytes[self.head.clone()]).map_err(|_| "a message that cannot be read")
    }
}

fn at_most(reader: &mut dyn Read, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The bytes that all buffers take decompressed. Every length is checked before the decoder sees it: it sets aside as
/// much memory as a message says, whatever the bytes there are.
pub(crate) fn unpacked_bytes(mut bytes: &[u8]) -> Result<u64, &'static str> {
    let mut sum = 0u64;
    loop {
        let Some((mut length, mut rest)) = bytes.split_first_chunk::<4>() else {
            return if bytes.is_empty() { Ok(sum) } else { Err(CUT) };
        };
        if *length == CONTINUATION {
            (length, rest) = rest.split_first_chunk().ok_or(CUT)?;
        }
        let length = i32::from_le_bytes(*length);
        if length == 0 {
            return if rest.is_empty() { Ok(sum) } else { Err("bytes after the end of the stream") };
        }
        let length = usize::try_from(length).map_err(|_| "a message of negative length")?;
        let (head, rest) = rest.split_at_checked(length).ok_or(CUT)?;
        let message = root_as_message(head).map_err(|_| "a message that cannot be read")?;
        let body = usize::try_from(message.bodyLength()).map_err(|_| "a body of negative length")?;
        let (body, rest) = rest.split_at_checked(body).ok_or(CUT)?;
        sum = sum.saturating_add(message_bytes(&message, body)?);
        bytes = rest;
    }
}

/// The bytes that the buffers of a message take decompressed.
pub(crate) fn message_bytes(message: &Message<'_>, body: &[u8]) -> Result<u64, &'static str> {
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => {
            message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data())
        }
        _ => None,
    };
    batch.map_or(Ok(0), |batch| batch_bytes(&batch, body))
}

fn batch_bytes(batch: &BatchHeader<'_>, body: &[u8]) -> Result<u64, &'static str> {
    const OUTSIDE: &str = "a buffer outside its message";
    let is_compressed = batch.compression().is_some();
    let mut sum = 0u64;
    for buffer in batch.buffers().into_iter().flatten() {
        let start = usize::try_from(buffer.offset()).map_err(|_| OUTSIDE)?;
        let length = usize::try_from(buffer.length()).map_err(|_| OUTSIDE)?;
        let end = start.checked_add(length).ok_or(OUTSIDE)?;
        let stored = body.get(start..end).ok_or(OUTSIDE)?;
        let unpacked = match stored.first_chunk::<8>() {
            // -1 stands for a buffer that is stored as it is.
            Some(prefix) if is_compressed => match i64::from_le_bytes(*prefix) {
                -1 => length as u64,
                unpacked => {
                    u64::try_from(unpacked).map_err(|_| "a buffer of negative length once decompressed")?
                }
            },
            None if is_compressed && length > 0 => return Err("a compressed buffer without its length"),
            Some(_) | None => length as u64,
        };
        sum = sum.saturating_add(unpacked);
    }
    Ok(sum)
}
