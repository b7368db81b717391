//! What fuzzing looks for, by mutations from a seed: every decoder of files gives rows or a refusal that names the file.

use std::sync::Arc;

use ::parquet::basic::{Compression, ZstdLevel};
use ::parquet::file::properties::WriterProperties;
use arrow_array::types::Float32Type;
use arrow_array::{ArrayRef, FixedSizeListArray, Int64Array, ListArray, RecordBatch, StringArray};
use arrow_schema::{Field, Schema};
use dehub_format::{FILE_DECODERS, Kind, WriteOptions, Writer};
use dehub_vector::{Metric, Rows};

use crate::files::{Folder, bytes_of, npy};
use crate::matrices::{bin, gzipped, tensors, vecs, zip};

const MUTANTS: usize = 400;

/// Bytes that mean something to some decoder.
const TOKENS: [&[u8]; 10] = [
    b"\xff\xff\xff\xff",
    b"\0\0\0\0",
    b"\xff\xff\xff\x7f",
    b"PK",
    b"{",
    b"}",
    b"1e999",
    b"null",
    b"\n",
    b"\x80",
];

fn columns() -> Vec<(&'static str, ArrayRef)> {
    let vectors = |row: usize| Some(vec![Some(row as f32), Some(1.0), Some(-2.0)]);
    let lists = ListArray::from_iter_primitive::<Float32Type, _, _>((0..9).map(vectors));
    let words = StringArray::from_iter_values((0..9).map(|row| format!("word {}", row % 3)));
    vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..9))),
        ("vector", Arc::new(lists)),
        ("w", Arc::new(words)),
    ]
}

fn arrow(is_file: bool, compression: Option<arrow_ipc::CompressionType>) -> Vec<u8> {
    let vectors = (0..9).map(|row| Some(vec![Some(row as f32), Some(1.0)]));
    let fixed: ArrayRef = Arc::new(FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(vectors, 2));
    let mut columns = columns();
    columns.push(("values", fixed));
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let record = RecordBatch::try_new(Arc::clone(&schema), arrays).expect("columns of one length");
    let options = arrow_ipc::writer::IpcWriteOptions::default();
    let options = options.try_with_compression(compression).expect("built in");
    if is_file {
        let mut writer =
            arrow_ipc::writer::FileWriter::try_new_with_options(Vec::new(), &schema, options).expect("begun");
        writer.write(&record.slice(0, 5)).expect("written");
        writer.write(&record.slice(5, 4)).expect("written");
        writer.into_inner().expect("ended")
    } else {
        let mut writer = arrow_ipc::writer::StreamWriter::try_new_with_options(Vec::new(), &schema, options)
            .expect("begun");
        writer.write(&record).expect("written");
        writer.into_inner().expect("ended")
    }
}

fn parquet(compression: Compression) -> Vec<u8> {
    let properties =
        WriterProperties::builder().set_compression(compression).set_max_row_group_row_count(Some(4));
    crate::made::parquet_in_groups(columns(), properties.build())
}

fn hdf5() -> Vec<u8> {
    let folder = Folder::new();
    let options = WriteOptions { metric: Some(Metric::Euclidean), ..WriteOptions::default() };
    let path = folder.path("a.h5");
    let mut writer =
        Writer::create(&path, vec![("v".to_owned(), Kind::Vectors(3))], &options).expect("begun");
    let rows = Rows::new(3, vec![0.5; 30]).expect("whole rows");
    writer.write(vec![dehub_format::Column::Vectors(rows)]).expect("written");
    writer.finish().expect("finished");
    std::fs::read(path).expect("there")
}

/// HDF5 as h5py writes it: chunks of 3 by 2, shuffled, deflated and with checksums, and attributes.
fn hdf5_chunked() -> Vec<u8> {
    let mut builder = hdf5_pure::FileBuilder::new();
    builder.set_attr("distance", hdf5_pure::AttrValue::VarLenString("angular".to_owned()));
    let numbers: Vec<f32> = (0..40).map(|number| number as f32).collect();
    let dataset = builder.create_dataset("train").with_f32_data(&numbers).with_shape(&[10, 4]);
    dataset.with_chunks(&[3, 2]).with_shuffle().with_deflate(6).with_fletcher32();
    builder.finish().expect("laid out")
}

/// What each decoder takes.
fn valid() -> Vec<(&'static str, Vec<u8>)> {
    let floats = bytes_of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], f32::to_le_bytes);
    let array = npy("'<f4'", false, "(2, 3)", &floats);
    let line = b"{\"id\": 1, \"vector\": [1, -2.5e3], \"t\": [\"\\u00e9\", null]}\n";
    let ints = |count: i32| (0..count).flat_map(|_| 1i32.to_le_bytes()).collect::<Vec<u8>>();
    let whole: Vec<u8> = [3i32, 1, 2, 3].iter().flat_map(|number| number.to_le_bytes()).collect();
    let header = r#"{"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}"#;
    let zstd = zstd::encode_all(&line.repeat(9)[..], 3).expect("packed");
    vec![
        ("npy", array.clone()),
        ("npy", npy("'>f8'", true, "(1, 3)", &floats)),
        ("npz", zip(&[("a.npy", array.clone())], zip::CompressionMethod::Stored)),
        ("npz", zip(&[("a.npy", array)], zip::CompressionMethod::Deflated)),
        ("fvecs", vecs(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])),
        ("ivecs", whole.clone()),
        ("bvecs", vec![3, 0, 0, 0, 1, 2, 3]),
        ("fbin", bin(2, &floats)),
        ("ibin", bin(1, &whole[4..])),
        ("u8bin", bin(2, &[1, 2, 3, 4, 5, 6])),
        ("i8bin", bin(2, &[1, 2, 3, 4, 5, 255])),
        ("parquet", parquet(Compression::UNCOMPRESSED)),
        ("parquet", parquet(Compression::ZSTD(ZstdLevel::default()))),
        ("parquet", parquet(Compression::SNAPPY)),
        ("arrow", arrow(true, None)),
        ("arrow", arrow(false, Some(arrow_ipc::CompressionType::ZSTD))),
        ("arrow", arrow(true, Some(arrow_ipc::CompressionType::LZ4_FRAME))),
        ("hdf5", hdf5()),
        ("hdf5", hdf5_chunked()),
        ("jsonl", line.repeat(3)),
        ("safetensors", tensors(header, &floats)),
        ("gzip", gzipped(&line.repeat(9))),
        ("zstd", zstd),
        ("truth", [ints(2), vec![9, 0, 0, 0, 0, 0, 0, 0]].concat()),
        ("range_truth", ints(4)),
    ]
}

/// Numbers from a seed (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 33) as usize % limit.max(1)
    }
}

fn mutate(numbers: &mut Numbers, bytes: &mut Vec<u8>) {
    let mut below = |limit: usize| numbers.below(limit);
    let place = below(bytes.len() + 1);
    match below(6) {
        0 | 1 if place < bytes.len() => bytes[place] ^= 1 << below(8),
        2 => {
            let token = TOKENS[below(TOKENS.len())];
            let end = (place + token.len()).min(bytes.len());
            bytes.splice(place..end, token.iter().copied());
        }
        3 => {
            let end = (place + 1 + below(8)).min(bytes.len());
            bytes.drain(place.min(end)..end);
        }
        4 => {
            let end = (place + below(30)).min(bytes.len());
            let again = bytes[place.min(end)..end].to_vec();
            bytes.splice(place..place, again);
        }
        _ => bytes.truncate(place),
    }
}

#[test]
fn every_decoder_of_files_survives_mutations() {
    let valid = valid();
    let mut numbers = Numbers(20_261);
    for (name, decode) in FILE_DECODERS {
        let files: Vec<_> = valid.iter().filter(|(own, _)| *own == name).collect();
        assert!(!files.is_empty(), "{name} has no valid file to begin with");
        let mut refused = 0;
        for (_, file) in files {
            let rows = decode(file).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(rows > 0, "{name} has no rows");
            for _ in 0..MUTANTS {
                let mut bytes = file.clone();
                for _ in 0..=numbers.below(3) {
                    mutate(&mut numbers, &mut bytes);
                }
                if let Err(error) = decode(&bytes) {
                    let message = error.to_string();
                    assert!(message.starts_with(&error.path().display().to_string()), "{message}");
                    refused += 1;
                }
            }
        }
        assert!(refused > MUTANTS / 4, "{name} refused {refused}");
    }
}
