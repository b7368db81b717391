//! Files of Arrow IPC, read by the blocks that their footer lists: what else there is differs from writer to writer.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, root_as_footer, root_as_message};
use arrow_schema::{Schema, SchemaRef};

use crate::arrow_messages::{Broken, CONTINUATION, CUT, HEAD_BYTES_MAX, message_bytes};
use crate::held::Held;
use crate::table::guarded;

/// What begins and ends a file.
pub(crate) const MARK: &[u8] = b"ARROW1";

/// The length of the footer, and the mark.
const TAIL_BYTES: u64 = 10;

/// A cursor over the record batches of a file.
pub(crate) struct ArrowFile {
    held: Held,
    decoder: FileDecoder,
    schema: SchemaRef,
    records: VecDeque<Block>,
    bytes_max: usize,
}

impl ArrowFile {
    /// Reads the footer and the dictionaries. A record batch, and all dictionaries, may take `bytes_max` each.
    pub(crate) fn open(held: Held, bytes_max: usize) -> Result<ArrowFile, Broken> {
        const NO_FOOTER: &str = "no whole footer at the end of the file";
        let tail_start = held.size().checked_sub(TAIL_BYTES).ok_or(NO_FOOTER)?;
        let mut tail = [0; TAIL_BYTES as usize];
        held.read_exact_at(&mut tail, tail_start)?;
        let (length, mark) = tail.split_at(4);
        let length = length.first_chunk().map_or(0, |&length| u32::from_le_bytes(length));
        if mark != MARK || length as usize > HEAD_BYTES_MAX {
            return Err(NO_FOOTER.into());
        }
        let start = tail_start.checked_sub(length.into()).ok_or(NO_FOOTER)?;
        let mut footer = vec![0; length as usize];
        held.read_exact_at(&mut footer, start)?;
        let footer = root_as_footer(&footer).map_err(|_| "a footer that cannot be read")?;
        let schema = footer.schema().ok_or("no schema")?;
        let schema: Schema = guarded(|| Ok::<_, String>(fb_to_schema(schema))).map_err(Broken::Bad)?;
        let schema = Arc::new(schema);
        let blocks = footer.recordBatches().into_iter().flatten().copied().collect();
        let decoder = FileDecoder::new(Arc::clone(&schema), footer.version());
        let mut file = ArrowFile { held, decoder, schema, records: blocks, bytes_max };
        let mut dictionary_bytes = 0u64;
        for block in footer.dictionaries().into_iter().flatten() {
            let bytes = file.block(block, &mut dictionary_bytes)?;
            guarded(|| file.decoder.read_dictionary(block, &bytes)).map_err(Broken::Bad)?;
        }
        Ok(file)
    }

    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The next record batch; `None` at the end.
    pub(crate) fn next_record(&mut self) -> Result<Option<RecordBatch>, Broken> {
        let Some(block) = self.records.pop_front() else { return Ok(None) };
        let bytes = self.block(&block, &mut 0)?;
        let record = guarded(|| self.decoder.read_record_batch(&block, &bytes)).map_err(Broken::Bad)?;
        record.ok_or("a block that is no record batch".into()).map(Some)
    }

    /// The bytes of a block, once it is known what they take decompressed, which is added to `taken`.
    fn block(&self, block: &Block, taken: &mut u64) -> Result<Buffer, Broken> {
        let length = |length: i64| usize::try_from(length).map_err(|_| "a block of negative length");
        let (head, body) = (length(block.metaDataLength().into())?, length(block.bodyLength())?);
        if body > self.bytes_max {
            return Err(Broken::TooLarge(self.bytes_max));
        }
        if head > HEAD_BYTES_MAX {
            return Err(Broken::Bad(format!("a message with a head of {head} bytes")));
        }
        let offset = u64::try_from(block.offset()).map_err(|_| "a block before the file")?;
        let part = self.held.part(offset, (head + body) as u64).ok_or(CUT)?;
        let bytes = part.beginning(head + body)?;
        // A length, perhaps after a mark, is before a message.
        let message = match bytes.first_chunk::<4>() {
            Some(&CONTINUATION) => bytes.get(8..head),
            Some(_) => bytes.get(4..head),
            None => None,
        };
        let message = root_as_message(message.ok_or(CUT)?).map_err(|_| "a message that cannot be read")?;
        *taken = taken.saturating_add(message_bytes(&message, &bytes[head..])?);
        if *taken > self.bytes_max as u64 {
            return Err(Broken::TooLarge(self.bytes_max));
        }
        Ok(Buffer::from_vec(bytes))
    }
}
