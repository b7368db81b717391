//! Schemas that the derive does not make: ids, names, vectors, and values of one of several types.

use std::borrow::Cow;

use dehub_vector::{DIM_MAX, ID_BYTES_MAX, MULTI_MAX};
use serde_json::json;
use utoipa::openapi::schema::{
    AdditionalProperties, Array, ArrayBuilder, Object, ObjectBuilder, OneOfBuilder, Schema, SchemaType, Type,
};
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

/// What names of collections, banks and corrections look like.
pub(crate) const NAME_PATTERN: &str = "^[A-Za-z0-9_][A-Za-z0-9_.=(),-]{0,127}$";

/// What paths into payloads look like.
const PATH_PATTERN: &str = "^([A-Za-z0-9_-]+|\"[^\"]*\")(\\[[0-9]{0,9}\\])*\
    (\\.([A-Za-z0-9_-]+|\"[^\"]*\")(\\[[0-9]{0,9}\\])*)*$";

/// Schemas by their names.
pub(crate) type Named = Vec<(String, RefOr<Schema>)>;

/// A schema where it is used, and how to collect those that it refers to.
pub(crate) struct Shape {
    pub(crate) schema: RefOr<Schema>,
    pub(crate) collect: fn(&mut Named),
}

/// A value of a type.
pub(crate) fn one<T: ToSchema>() -> Shape {
    Shape { schema: Ref::from_schema_name(T::name()).into(), collect: collect::<T> }
}

/// A list of values of a type.
pub(crate) fn list<T: ToSchema>() -> Shape {
    let Shape { schema, collect } = one::<T>();
    Shape { schema: Array::new(schema).into(), collect }
}

/// A list of lists.
pub(crate) fn lists<T: ToSchema>() -> Shape {
    let Shape { schema, collect } = list::<T>();
    Shape { schema: Array::new(schema).into(), collect }
}

/// A value of a type, or `null`.
pub(crate) fn nullable<T: ToSchema>() -> Shape {
    let Shape { schema, collect } = one::<T>();
    let null = ObjectBuilder::new().schema_type(SchemaType::Type(Type::Null)).build();
    Shape { schema: OneOfBuilder::new().item(null).item(schema).into(), collect }
}

/// `true` or `false`.
pub(crate) fn boolean() -> Shape {
    Shape { schema: Object::with_type(Type::Boolean).into(), collect: |_| {} }
}

/// `true` and nothing else.
pub(crate) fn always() -> Shape {
    only(true)
}

/// `false` and nothing else.
pub(crate) fn never() -> Shape {
    only(false)
}

fn only(flag: bool) -> Shape {
    let only = ObjectBuilder::new().schema_type(Type::Boolean).enum_values(Some([flag]));
    Shape { schema: only.into(), collect: |_| {} }
}

/// A string, of one of these values.
pub(crate) fn text(values: &[&str]) -> Shape {
    let text = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(values.iter().copied()));
    Shape { schema: text.into(), collect: |_| {} }
}

/// Any string.
pub(crate) fn any_text() -> Shape {
    Shape { schema: Object::with_type(Type::String).into(), collect: |_| {} }
}

/// A number.
pub(crate) fn number() -> Shape {
    Shape { schema: Object::with_type(Type::Number).into(), collect: |_| {} }
}

/// A whole number of 64 bits with a sign.
pub(crate) fn integer() -> Shape {
    let integer = ObjectBuilder::new().schema_type(Type::Integer);
    let integer = integer.minimum(Some(i64::MIN as f64)).maximum(Some(i64::MAX as f64));
    Shape { schema: integer.into(), collect: |_| {} }
}

/// Adds the schema of a type, and those that it refers to, which may be itself.
pub(crate) fn collect<T: ToSchema>(named: &mut Named) {
    let name = T::name();
    if named.iter().any(|(known, _)| *known == name) {
        return;
    }
    named.push((name.into_owned(), T::schema()));
    T::schemas(named);
}

/// A type of values that are of one of several shapes.
macro_rules! union {
    ($(#[doc = $doc:literal])+ $name:ident => $($shape:expr),+ $(,)?) => {
        $(#[doc = $doc])+
        pub(crate) struct $name;

        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let union = utoipa::openapi::schema::OneOfBuilder::new()
                    .description(Some([$($doc.trim()),+].join(" ")));
                union$(.item($shape.schema))+.into()
            }
        }

        impl utoipa::ToSchema for $name {
            fn schemas(named: &mut crate::openapi::schema::Named) {
                $(($shape.collect)(named);)+
            }
        }
    };
}

pub(crate) use union;

/// A type of values that are written out by hand.
macro_rules! plain {
    ($($name:ident: $make:ident;)+) => {
        $(
            impl PartialSchema for $name {
                fn schema() -> RefOr<Schema> {
                    $make()
                }
            }

            impl ToSchema for $name {
                fn name() -> Cow<'static, str> {
                    stringify!($name).into()
                }
            }
        )+
    };
}

/// The id of a point or of an entry of a bank.
pub(crate) struct Id;

/// A value that points are grouped by.
pub(crate) struct GroupValue;

/// The name of a collection, a bank or a correction.
pub(crate) struct Name;

/// The coordinates of a vector.
pub(crate) struct Vector;

/// A number that 32 bits can hold.
pub(crate) struct Number32;

/// A path into payloads.
pub(crate) struct PayloadPath;

/// A payload.
pub(crate) struct Payload;

plain! {
    Id: id;
    GroupValue: group_value;
    Name: name;
    Vector: vector;
    Number32: number_32;
    PayloadPath: payload_path;
    Payload: payload;
}

fn id() -> RefOr<Schema> {
    let number = ObjectBuilder::new().schema_type(Type::Integer);
    // As a double, so less than 2^64 by what a double cannot tell apart.
    let number = number.minimum(Some(0)).maximum(Some(u64::MAX as f64 - 2048.0)).build();
    let text = ObjectBuilder::new().schema_type(Type::String);
    let text = text.min_length(Some(1)).max_length(Some(ID_BYTES_MAX)).build();
    let doc = "An id: a whole number of 64 bits from 0, or a string of 1 to 512 bytes of UTF-8. \
               `7` and `\"7\"` are two ids.";
    OneOfBuilder::new().item(number).item(text).description(Some(doc)).into()
}

fn group_value() -> RefOr<Schema> {
    let union =
        OneOfBuilder::new().item(Object::with_type(Type::Integer)).item(Object::with_type(Type::String));
    union.description(Some("A value that points are grouped by.")).into()
}

fn name() -> RefOr<Schema> {
    let doc = "1 to 128 letters, digits and `_-.=(),`, starting with a letter, a digit or `_`.";
    ObjectBuilder::new().schema_type(Type::String).pattern(Some(NAME_PATTERN)).description(Some(doc)).into()
}

fn number_32() -> RefOr<Schema> {
    let most = f64::from(f32::MAX);
    let number = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(-most)).maximum(Some(most));
    number.description(Some("A number that 32 bits can hold.")).into()
}

fn vector() -> RefOr<Schema> {
    let doc = "The coordinates of a vector, as many as the collection has dimensions; a list of such where points have \
               several vectors. Under Cosine each is scaled to length 1 when it is stored.";
    let items = Ref::from_schema_name("Number32");
    let one = || {
        let array = ArrayBuilder::new().items(RefOr::<Schema>::from(items.clone()));
        array.min_items(Some(1)).max_items(Some(DIM_MAX)).build()
    };
    let several =
        ArrayBuilder::new().items(RefOr::<Schema>::from(one())).min_items(Some(1)).max_items(Some(MULTI_MAX));
    OneOfBuilder::new().item(one()).item(several).description(Some(doc)).into()
}

fn payload_path() -> RefOr<Schema> {
    let doc = "A path into payloads: `city`, `author.name`, `tags[]`, `lines[0].text`; a key with other signs is \
               quoted: `\"first name\"`.";
    let text = ObjectBuilder::new().schema_type(Type::String).pattern(Some(PATH_PATTERN));
    text.description(Some(doc)).examples([json!("genre"), json!("author.name")]).into()
}

fn payload() -> RefOr<Schema> {
    let doc = "Any JSON object, of at most 1 MiB.";
    let any = AdditionalProperties::FreeForm(true);
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(any))
        .description(Some(doc))
        .into()
}
