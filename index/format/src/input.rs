//! A file to read from: where it is, what it holds, and how it is compressed.
//!
//! What has to be read at any place is unpacked to a file without a name in the folder for temporary files (`TMPDIR`);
//! lines and streams of Arrow are unpacked as they are read. So memory is bounded by buffers, whatever the bytes unfold
//! to.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use flate2::read::MultiGzDecoder;

use crate::error::FormatError;
use crate::formats::{Format, Packing, Told};
use crate::held::Held;

/// The name that stands for standard input.
const STDIN: &str = "-";

/// What is read ahead.
const BUFFER_BYTES: usize = 256 * 1024;

/// As much as tells a format.
const BEGINNING_BYTES: usize = 64;

/// Standard input, kept in a file once it was asked for: it can be read once, and commands read their files twice.
static STDIN_HELD: Mutex<Option<Held>> = Mutex::new(None);

/// A file that is open, and not read yet.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    path: PathBuf,
    held: Held,
    packing: Option<Packing>,
}

impl Input {
    /// Opens a file, or standard input under the name `-`. How it is compressed is told by its name, or by its first
    /// bytes if that is silent.
    pub(crate) fn open(path: &Path) -> Result<Input, FormatError> {
        let (name, held) = if path == Path::new(STDIN) {
            let held = stdin().map_err(FormatError::io(Path::new("standard input")))?;
            (Path::new("standard input"), held)
        } else {
            let held = File::open(path).and_then(Held::file).map_err(FormatError::io(path))?;
            (path, held)
        };
        let told = Told::by(path);
        let beginning = held.beginning(BEGINNING_BYTES).map_err(FormatError::io(name))?;
        let by_bytes = || Packing::of_beginning(&beginning).filter(|_| !matches!(told.format, Some(Ok(_))));
        Ok(Input { path: name.to_owned(), packing: told.packing.or_else(by_bytes), held })
    }

    /// Bytes in memory, under a name for messages.
    pub(crate) fn memory(name: &Path, bytes: Vec<u8>) -> Input {
        Input { path: name.to_owned(), packing: Told::by(name).packing, held: Held::memory(bytes) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn is_packed(&self) -> bool {
        self.packing.is_some()
    }

    /// The format: the one asked for, or that of the name, or that of the first bytes if the name is silent.
    pub(crate) fn format(&self, asked: Option<Format>) -> Result<Format, FormatError> {
        if let Some(format) = asked {
            return Ok(format);
        }
        let unknown = |found: String| FormatError::UnknownExtension { path: self.path.clone(), found };
        match Told::by(&self.path).format {
            Some(Ok(format)) => Ok(format),
            Some(Err(ending)) => Err(unknown(format!(".{ending}"))),
            None => {
                let mut beginning = Vec::new();
                let mut start = self.stream()?.take(BEGINNING_BYTES as u64);
                start.read_to_end(&mut beginning).map_err(self.unreadable())?;
                Format::of_beginning(&beginning).ok_or_else(|| {
                    let start = &beginning[..beginning.len().min(8)];
                    let start = start.escape_ascii();
                    unknown(format!("no ending, and a beginning (\"{start}\") that tells no format: name it"))
                })
            }
        }
    }

    /// The bytes once unpacked, in order.
    pub(crate) fn stream(&self) -> Result<Box<dyn Read + Send>, FormatError> {
        let packed = BufReader::with_capacity(BUFFER_BYTES, self.held.clone());
        Ok(match self.packing {
            None => Box::new(packed),
            Some(Packing::Gzip) => Box::new(MultiGzDecoder::new(packed)),
            Some(Packing::Zstd) => {
                Box::new(zstd::stream::read::Decoder::with_buffer(packed).map_err(self.unreadable())?)
            }
        })
    }

    /// The bytes once unpacked, to be read at any place.
    pub(crate) fn held(&self) -> Result<Held, FormatError> {
        if self.packing.is_none() {
            return Ok(self.held.clone());
        }
        Held::spooled(&mut self.stream()?).map_err(self.unreadable())
    }

    /// What an error of [`Input::stream`] says of the file.
    pub(crate) fn unreadable(&self) -> impl FnOnce(io::Error) -> FormatError + '_ {
        |reason| {
            if self.is_packed() && reason.raw_os_error().is_none() {
                let wanted = "a whole compressed file".to_owned();
                FormatError::Header { path: self.path.clone(), wanted, found: reason.to_string() }
            } else {
                FormatError::Io { path: self.path.clone(), reason }
            }
        }
    }
}

fn stdin() -> io::Result<Held> {
    let mut kept = STDIN_HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(held) = &*kept {
        return Ok(held.clone());
    }
    let held = Held::spooled(&mut io::stdin().lock())?;
    Ok(kept.insert(held).clone())
}
