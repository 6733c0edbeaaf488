//! Arrow IPC, in its file and its stream form: a list of messages, each decoded by one core.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, UInt64Array, new_empty_array};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block as Message, MessageHeader, MetadataVersion, root_as_footer, root_as_message};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::take::take_record_batch;

use super::arrow_columns::{Decoder, columns_of};
use super::cells::{CellColumn, check_range, gathered, within};
use super::content::Content;
use super::guard::guarded;
use crate::error::DataError;
use crate::scan::blocks::{Block, Blocks, ColumnInfo, Fault, Visit, Wanted};
use crate::scan::memory;
use crate::scan::place::Extent;
use crate::scan::source::{Reader, Stored};
use crate::scan::text_cells::Markers;

const FORMAT: &str = "Arrow IPC";
const FILE_MAGIC: &[u8] = b"ARROW1";
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Rows handed on at a time.
const BATCH_ROWS: usize = 1 << 15;

/// Buffers up to this size, all of a message together, are allocated without a question.
const SMALL: u64 = 1 << 26;

/// An Arrow file or stream whose messages are known.
pub(crate) struct ArrowFile {
    content: Content,
    schema: SchemaRef,
    version: MetadataVersion,
    columns: Vec<ColumnInfo>,
    dictionaries: Vec<Dictionary>,
    batches: Vec<BatchMessage>,
}

/// A message with values of a dictionary.
struct Dictionary {
    id: i64,
    /// Whether it adds to what came before it, rather than replace it.
    delta: bool,
    message: Message,
}

/// A message with rows.
struct BatchMessage {
    message: Message,
    /// Dictionary messages that came before.
    dictionaries: usize,
    /// Rows of earlier messages.
    start: usize,
    rows: usize,
}

impl ArrowFile {
    /// Finds all messages; the form is told by the first bytes.
    pub(crate) fn open(content: Content) -> Result<Self, DataError> {
        let file = content.name.clone();
        guarded(&file, FORMAT, || {
            let magic = content.start(FILE_MAGIC.len() as u64).map_err(|e| DataError::read(&file, &e))?;
            let found =
                if magic == FILE_MAGIC { Found::in_file(&content)? } else { Found::in_stream(&content)? };
            found.into_arrow(content)
        })
    }

    /// A decoder that knows the dictionaries which hold after `count` messages about them.
    fn decoder(&self, count: usize, projection: Option<Vec<usize>>) -> Result<FileDecoder, DataError> {
        let mut decoder = FileDecoder::new(Arc::clone(&self.schema), self.version);
        if let Some(projection) = projection {
            decoder = decoder.with_projection(projection);
        }
        let known = &self.dictionaries[..count];
        let mut first: HashMap<i64, usize> = HashMap::new();
        for (i, dictionary) in known.iter().enumerate().filter(|(_, dictionary)| !dictionary.delta) {
            first.insert(dictionary.id, i);
        }
        for (i, dictionary) in known.iter().enumerate() {
            if first.get(&dictionary.id).is_none_or(|&first| i >= first) {
                let bytes = self.message(&dictionary.message)?;
                decoder.read_dictionary(&dictionary.message, &bytes).map_err(|e| self.damaged(&e))?;
            }
        }
        Ok(decoder)
    }

    /// The bytes of a message, once the lengths that it names have been believed.
    fn message(&self, message: &Message) -> Result<Buffer, DataError> {
        let (metadata, body) = (u64::from(message.metaDataLength() as u32), message.bodyLength() as u64);
        let bytes =
            self.content.bytes(message.offset() as u64, metadata + body).map_err(|e| self.damaged(&e))?;
        let (head, body) = bytes.split_at(metadata as usize);
        check_lengths(&self.content.name, head, body)?;
        Ok(Buffer::from(bytes))
    }

    fn batch(&self, decoder: &FileDecoder, batch: &BatchMessage) -> Result<RecordBatch, DataError> {
        let bytes = self.message(&batch.message)?;
        let rows = decoder.read_record_batch(&batch.message, &bytes).map_err(|e| self.damaged(&e))?;
        rows.ok_or_else(|| self.damaged(&"a message without rows"))
    }

    fn read_batch(
        &self,
        decoder: &FileDecoder,
        batch: &BatchMessage,
        wanted: &[Wanted],
        markers: &Markers,
        visit: &mut Visit<'_>,
    ) -> Result<Extent, Fault> {
        let columns = Decoder::new(&self.content.name, FORMAT, wanted, markers);
        let needed = (batch.rows as u64).saturating_mul(8 * wanted.len() as u64);
        if needed > SMALL {
            memory::require(&self.content.name, "the rows of one message", needed)?;
        }
        let rows = self.batch(decoder, batch)?;
        if rows.num_rows() != batch.rows {
            return Err(self.damaged(&"a message has another number of rows than it says").into());
        }
        for start in (0..batch.rows).step_by(BATCH_ROWS) {
            let part = rows.slice(start, BATCH_ROWS.min(batch.rows - start));
            columns.visit(&part, start, visit)?;
        }
        Ok(Extent { rows: batch.rows, lines: 0 })
    }

    fn damaged(&self, reason: &dyn std::fmt::Display) -> DataError {
        DataError::damaged(&self.content.name, FORMAT, &reason)
    }
}

impl Reader for ArrowFile {
    fn columns(&self) -> &[ColumnInfo] {
        &self.columns
    }

    fn stored(&self) -> Option<&dyn Stored> {
        Some(&self.content)
    }

    fn blocks<'a>(&'a self, wanted: &'a [Wanted], markers: &'a Markers) -> Result<Blocks<'a>, DataError> {
        let mut projection: Vec<usize> = wanted.iter().map(|wanted| wanted.column).collect();
        projection.sort_unstable();
        let mut current: Option<(usize, Arc<FileDecoder>)> = None;
        Ok(Box::new(self.batches.iter().map(move |batch| {
            let decoder = match &current {
                Some((count, decoder)) if *count == batch.dictionaries => Arc::clone(decoder),
                _ => {
                    let projection = Some(projection.clone());
                    let decoder =
                        guarded(&self.content.name, FORMAT, || self.decoder(batch.dictionaries, projection))?;
                    let decoder = Arc::new(decoder);
                    current = Some((batch.dictionaries, Arc::clone(&decoder)));
                    decoder
                }
            };
            let upto = batch.message.offset() as u64 + batch.message.bodyLength() as u64;
            Ok(Block::new(upto, move |visit| {
                guarded(&self.content.name, FORMAT, || {
                    self.read_batch(&decoder, batch, wanted, markers, visit)
                })
            }))
        })))
    }

    fn cells(&self, rows: &[usize]) -> Result<Vec<CellColumn>, DataError> {
        let total = self.batches.last().map_or(0, |batch| batch.start + batch.rows);
        check_range(&self.content.name, rows, total)?;
        let fields = self.schema.fields();
        let mut parts: Vec<Vec<ArrayRef>> =
            fields.iter().map(|field| vec![new_empty_array(field.data_type())]).collect();
        for batch in &self.batches {
            let wanted = within(rows, batch.start, batch.rows);
            if wanted.is_empty() {
                continue;
            }
            let rows = rows[wanted].iter().map(|&row| (row - batch.start) as u64);
            let rows = UInt64Array::from_iter_values(rows);
            let cells = guarded(&self.content.name, FORMAT, || {
                let decoder = self.decoder(batch.dictionaries, None)?;
                take_record_batch(&self.batch(&decoder, batch)?, &rows).map_err(|e| self.damaged(&e))
            })?;
            parts.iter_mut().zip(cells.columns()).for_each(|(part, array)| part.push(array.clone()));
        }
        gathered(&self.content.name, FORMAT, &self.columns, &parts, rows.len())
    }
}

/// The messages of a file or a stream.
struct Found {
    schema: Schema,
    version: MetadataVersion,
    dictionaries: Vec<Message>,
    /// Messages with rows, and how many dictionary messages came before each.
    batches: Vec<(Message, usize)>,
}

impl Found {
    /// From the footer at the end of a file.
    fn in_file(content: &Content) -> Result<Self, DataError> {
        const TRAILER: u64 = 10;
        let damaged = |reason: &dyn std::fmt::Display| DataError::damaged(&content.name, FORMAT, &reason);
        let bytes = |offset: Option<u64>, length: u64| {
            let offset = offset.ok_or_else(|| damaged(&"it is too short"))?;
            content.bytes(offset, length).map_err(|e| damaged(&e))
        };
        let end = content.len().checked_sub(TRAILER);
        let trailer: [u8; 10] = bytes(end, TRAILER)?.try_into().map_err(|_| damaged(&"it is too short"))?;
        let length = read_footer_length(trailer).map_err(|e| damaged(&e))? as u64;
        let footer = bytes(end.and_then(|end| end.checked_sub(length)), length)?;
        let footer = root_as_footer(&footer).map_err(|e| damaged(&format!("its footer: {e}")))?;
        let schema = footer.schema().ok_or_else(|| damaged(&"its footer has no schema"))?;
        let dictionaries: Vec<Message> = footer.dictionaries().iter().flatten().copied().collect();
        let count = dictionaries.len();
        let batches = footer.recordBatches().iter().flatten().map(|&message| (message, count)).collect();
        let schema = try_fb_to_schema(schema).map_err(|e| damaged(&e))?;
        Ok(Self { schema, version: footer.version(), dictionaries, batches })
    }

    /// By going through a stream to the mark that ends it.
    fn in_stream(content: &Content) -> Result<Self, DataError> {
        let damaged = |reason: &dyn std::fmt::Display| DataError::damaged(&content.name, FORMAT, &reason);
        let mut found: Option<Self> = None;
        let mut at = 0u64;
        loop {
            if at >= content.len() {
                return Err(damaged(&"the mark that ends a stream is missing"));
            }
            let (prefix, length) = message_length(content, at).map_err(|e| damaged(&e))?;
            if length == 0 {
                at += prefix;
                break;
            }
            let head = content.bytes(at + prefix, length).map_err(|e| damaged(&e))?;
            let head = root_as_message(&head).map_err(|e| damaged(&format!("a message: {e}")))?;
            let body =
                u64::try_from(head.bodyLength()).map_err(|_| damaged(&"a message of negative length"))?;
            let metadata =
                i32::try_from(prefix + length).map_err(|_| damaged(&"a message of great length"))?;
            let message = Message::new(at as i64, metadata, body as i64);
            match (head.header_type(), &mut found) {
                (MessageHeader::Schema, None) => {
                    let schema = head.header_as_schema().ok_or_else(|| damaged(&"it has no schema"))?;
                    let schema = try_fb_to_schema(schema).map_err(|e| damaged(&e))?;
                    let version = head.version();
                    found = Some(Self { schema, version, dictionaries: Vec::new(), batches: Vec::new() });
                }
                (MessageHeader::DictionaryBatch, Some(found)) => found.dictionaries.push(message),
                (MessageHeader::RecordBatch, Some(found)) => {
                    found.batches.push((message, found.dictionaries.len()));
                }
                (kind, _) => return Err(damaged(&format!("a message of type {kind:?} where none can be"))),
            }
            at = at.checked_add(prefix + length).and_then(|at| at.checked_add(body)).unwrap_or(u64::MAX);
        }
        if at < content.len() {
            return Err(damaged(&"more follows the mark that ends a stream"));
        }
        found.ok_or_else(|| damaged(&"it has no schema"))
    }

    /// Looks at the head of each message: where it is, what it says of its rows.
    fn into_arrow(self, content: Content) -> Result<ArrowFile, DataError> {
        let Self { schema, version, dictionaries, batches } = self;
        let file = content.name.clone();
        let damaged = |reason: &dyn std::fmt::Display| DataError::damaged(&file, FORMAT, &reason);
        let columns = columns_of(&file, &schema)?;
        let mut known = Vec::with_capacity(dictionaries.len());
        for message in dictionaries {
            let head = head_of(&content, &message)?;
            let head = parse_head(&head).map_err(|e| damaged(&e))?;
            let head = head.header_as_dictionary_batch().ok_or_else(|| damaged(&"a dictionary is none"))?;
            known.push(Dictionary { id: head.id(), delta: head.isDelta(), message });
        }
        let mut rows_before = 0usize;
        let mut with_rows = Vec::with_capacity(batches.len());
        for (message, dictionaries) in batches {
            let head = head_of(&content, &message)?;
            let head = parse_head(&head).map_err(|e| damaged(&e))?;
            let head = head.header_as_record_batch().ok_or_else(|| damaged(&"a batch of rows is none"))?;
            let rows = usize::try_from(head.length()).map_err(|_| damaged(&"a negative number of rows"))?;
            with_rows.push(BatchMessage { message, dictionaries, start: rows_before, rows });
            rows_before = rows_before.checked_add(rows).ok_or_else(|| damaged(&"too many rows"))?;
        }
        let schema = Arc::new(schema);
        Ok(ArrowFile { content, schema, version, columns, dictionaries: known, batches: with_rows })
    }
}

/// Bytes of the prefix of a message, and the length of the head that follows it.
fn message_length(content: &Content, at: u64) -> std::io::Result<(u64, u64)> {
    let word = |at: u64| -> std::io::Result<[u8; 4]> {
        let bytes = content.bytes(at, 4)?;
        Ok([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    let first = word(at)?;
    let (prefix, length) = if first == CONTINUATION { (8, word(at + 4)?) } else { (4, first) };
    let length = u64::try_from(i32::from_le_bytes(length)).map_err(std::io::Error::other)?;
    Ok((prefix, length))
}

/// The head of a message, which must lie in the file with its body.
fn head_of(content: &Content, message: &Message) -> Result<Vec<u8>, DataError> {
    let damaged = |reason: &dyn std::fmt::Display| DataError::damaged(&content.name, FORMAT, &reason);
    let offset = u64::try_from(message.offset()).ok();
    let head = u64::try_from(message.metaDataLength()).ok();
    let body = u64::try_from(message.bodyLength()).ok();
    let (Some(offset), Some(head), Some(body)) = (offset, head, body) else {
        return Err(damaged(&"a message of negative length"));
    };
    let end = offset.checked_add(head).and_then(|end| end.checked_add(body));
    if end.is_none_or(|end| end > content.len()) {
        return Err(damaged(&"a message lies beyond the end"));
    }
    content.bytes(offset, head).map_err(|e| damaged(&e))
}

fn parse_head(bytes: &[u8]) -> Result<arrow_ipc::Message<'_>, String> {
    let prefix = if bytes.starts_with(&CONTINUATION) { 8 } else { 4 };
    let head = bytes.get(prefix..).ok_or("a message without a head")?;
    root_as_message(head).map_err(|e| format!("a message: {e}"))
}

/// Refuses compressed buffers that say they grow beyond all memory: the library would allocate what they say.
fn check_lengths(file: &str, head: &[u8], body: &[u8]) -> Result<(), DataError> {
    let damaged = |reason: &dyn std::fmt::Display| DataError::damaged(file, FORMAT, &reason);
    let head = parse_head(head).map_err(|e| damaged(&e))?;
    let batch = head.header_as_record_batch().or_else(|| head.header_as_dictionary_batch()?.data());
    let Some(batch) = batch.filter(|batch| batch.compression().is_some()) else { return Ok(()) };
    let mut total = 0u64;
    for buffer in batch.buffers().iter().flatten().filter(|buffer| buffer.length() != 0) {
        let start = usize::try_from(buffer.offset()).ok();
        let stored = start.and_then(|start| body.get(start..)?.first_chunk::<8>());
        let stored = stored.ok_or_else(|| damaged(&"a buffer lies beyond its message"))?;
        match i64::from_le_bytes(*stored) {
            -1 => {}
            length if length < 0 => return Err(damaged(&"a buffer of negative length")),
            length => total = total.saturating_add(length as u64),
        }
    }
    if total > SMALL { memory::require(file, "the buffers of one message", total) } else { Ok(()) }
}
