//! One operation of the document: a method of a path, what it takes and what it answers with.

use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::content::Content;
use utoipa::openapi::example::Example;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{AnyOfBuilder, Object, ObjectBuilder, Schema, Type};
use utoipa::openapi::security::SecurityRequirement;
use utoipa::openapi::{Ref, RefOr, Required, Response, ResponseBuilder};

use super::schema::{NAME_PATTERN, Named, Shape, collect, one};
use crate::bodies::{LEAVE_OUT, Media};
use crate::routes::Access;

/// An operation while it is described.
pub(crate) struct Operation {
    pub(crate) method: HttpMethod,
    pub(crate) pattern: &'static str,
    id: &'static str,
    tag: &'static str,
    summary: &'static str,
    parameters: Vec<Parameter>,
    body: Option<RequestBody>,
    replies: Vec<(&'static str, Response)>,
    /// The statuses of the refusals it knows beside those that all know.
    refusals: Vec<u16>,
    /// Schemas of bodies of requests.
    pub(crate) taken: Named,
    /// Schemas of answers.
    pub(crate) given: Named,
}

/// Describes a method of a path: its id, its tag, and a summary.
pub(crate) fn operation(
    method: HttpMethod,
    pattern: &'static str,
    (id, tag, summary): (&'static str, &'static str, &'static str),
) -> Operation {
    let parameters = pattern.split('/').filter_map(|segment| segment.strip_prefix('{'));
    let parameters = parameters.map(|name| in_path(name.trim_end_matches('}'))).collect();
    Operation {
        method,
        pattern,
        id,
        tag,
        summary,
        parameters,
        body: None,
        replies: Vec::new(),
        refusals: Vec::new(),
        taken: Vec::new(),
        given: Vec::new(),
    }
}

impl Operation {
    /// It takes the parameter `timeout`, as all do that ask the engine.
    pub(crate) fn timed(self) -> Operation {
        let seconds = ObjectBuilder::new().schema_type(Type::Number);
        let seconds = seconds.exclusive_minimum(Some(0)).maximum(Some(86_400));
        self.parameter(
            "timeout",
            seconds.build(),
            "Seconds that the request may take once all of it is there.",
        )
    }

    /// It is a write: it takes `wait` and `ordering`.
    pub(crate) fn writes(self) -> Operation {
        let doc = "Whether to wait until the write is on disk; it is always waited for.";
        self.waits(doc)
    }

    /// It is a write of points: it takes `refresh` too.
    pub(crate) fn writes_points(self) -> Operation {
        let doc = "Whether to wait until what is written is found by words; without text fields nothing is waited for.";
        self.writes().parameter("refresh", Object::with_type(Type::Boolean), doc)
    }

    /// It may be done as a job, if `wait` is false.
    pub(crate) fn may_be_job(self) -> Operation {
        let doc = "`false` makes the work a job, and the answer is 202.";
        self.waits(doc).begins_job()
    }

    /// It answers with the number of a job.
    pub(crate) fn begins_job(mut self) -> Operation {
        let reply = self.framed(one::<crate::backups::Begun>());
        self.replies.push(("202", in_json("The work has begun: `/jobs/{job}` tells how it goes.", reply)));
        self
    }

    fn waits(mut self, doc: &str) -> Operation {
        self.refusals.extend([409, 507]);
        let orders = ["weak", "medium", "strong"];
        let order = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(orders)).build();
        let about = "Writes of a collection are made one after the other, whatever is asked for.";
        self.parameter("wait", Object::with_type(Type::Boolean), doc).parameter("ordering", order, about)
    }

    /// It takes a parameter in the query string.
    pub(crate) fn parameter(mut self, name: &str, schema: impl Into<RefOr<Schema>>, doc: &str) -> Operation {
        self.parameters.push(in_query(name, schema, doc).build());
        self
    }

    /// It must have a parameter in the query string.
    pub(crate) fn must_have(
        mut self,
        name: &str,
        schema: impl Into<RefOr<Schema>>,
        (doc, example): (&str, &str),
    ) -> Operation {
        let parameter = in_query(name, schema, doc).required(Required::True).example(Some(json!(example)));
        self.parameters.push(parameter.build());
        self
    }

    /// It takes a JSON body, for instance these.
    pub(crate) fn takes<T: ToSchema>(
        mut self,
        examples: impl IntoIterator<Item = (&'static str, Value)>,
    ) -> Operation {
        collect::<T>(&mut self.taken);
        let examples =
            examples.into_iter().map(|(name, value)| (name, Example::builder().value(Some(value))));
        let content = Content::builder()
            .schema(Some(Ref::from_schema_name(T::name())))
            .examples_from_iter(examples.map(|(name, example)| (name, example.build())));
        let body = RequestBodyBuilder::new().required(Some(Required::True));
        self.body = Some(body.content(Media::Json.name(), content.build()).build());
        self.refusals.extend([408, 413, 415]);
        self
    }

    /// The body may be left out.
    pub(crate) fn optionally(mut self) -> Operation {
        if let Some(body) = &mut self.body {
            body.required = Some(Required::False);
        }
        self
    }

    /// It takes rows as well: JSON lines, an Arrow stream or a Parquet file.
    pub(crate) fn takes_rows(mut self, doc: &str) -> Operation {
        if let Some(body) = &mut self.body {
            for media in [Media::Lines, Media::Arrow, Media::Parquet] {
                body.content.insert(media.name().to_owned(), Content::default().into());
            }
            body.description = Some(doc.to_owned());
        }
        let left_out = "Columns of a table that are not read, with commas between.";
        self.parameter(LEAVE_OUT, Object::with_type(Type::String), left_out)
    }

    /// It takes a form.
    pub(crate) fn takes_form<T: ToSchema>(mut self) -> Operation {
        collect::<T>(&mut self.taken);
        let content = Content::new(Some(Ref::from_schema_name(T::name())));
        let body = RequestBodyBuilder::new().required(Some(Required::True));
        self.body = Some(body.content("multipart/form-data", content).build());
        self.refusals.extend([408, 413, 415]);
        self
    }

    /// It answers with this in the frame of every answer.
    pub(crate) fn gives(mut self, shape: Shape) -> Operation {
        let reply = self.framed(shape);
        self.replies.push(("200", in_json("Done.", reply)));
        self
    }

    /// It answers with one of several types, in the frame.
    pub(crate) fn gives_any(mut self, shapes: impl IntoIterator<Item = Shape>) -> Operation {
        let mut union = AnyOfBuilder::new();
        for shape in shapes {
            (shape.collect)(&mut self.given);
            union = union.item(shape.schema);
        }
        self.gives(Shape { schema: union.into(), collect: |_| {} })
    }

    /// It answers with this, without a frame.
    pub(crate) fn gives_bare<T: ToSchema>(mut self, status: &'static str, doc: &str) -> Operation {
        collect::<T>(&mut self.given);
        self.replies.push((status, in_json(doc, Ref::from_schema_name(T::name()))));
        self
    }

    /// It answers with something of this type.
    pub(crate) fn gives_media(mut self, media: &str, doc: &str) -> Operation {
        if let Some((_, reply)) = self.replies.iter_mut().find(|(status, _)| *status == "200") {
            reply.content.insert(media.to_owned(), Content::default().into());
            return self;
        }
        let response = ResponseBuilder::new().description(doc).content(media, Content::default());
        self.replies.push(("200", response.build()));
        self
    }

    /// It answers with this instead where the queries have labels.
    pub(crate) fn gives_labelled(mut self, labelled: Shape) -> Operation {
        let labelled = self.framed(labelled);
        let content = self.replies.iter_mut().find(|(status, _)| *status == "200");
        let content = content.and_then(|(_, reply)| reply.content.get_mut(Media::Json.name()));
        if let Some(RefOr::T(content)) = content
            && let Some(plain) = content.schema.take()
        {
            let union = AnyOfBuilder::new().item(plain).item(labelled);
            content.schema = Some(union.into());
        }
        self
    }

    /// The work has only begun, and it answers with this in the frame.
    pub(crate) fn gives_later(mut self, shape: Shape) -> Operation {
        let reply = self.framed(shape);
        self.replies.push(("202", in_json("Begun.", reply)));
        self
    }

    /// It answers without a body.
    pub(crate) fn gives_nothing(mut self, status: &'static str, doc: &str) -> Operation {
        self.replies.push((status, ResponseBuilder::new().description(doc).build()));
        self
    }

    /// It answers with an Arrow stream to those who like that best.
    pub(crate) fn gives_arrow(mut self) -> Operation {
        for (_, reply) in self.replies.iter_mut().filter(|(status, _)| *status == "200") {
            reply.content.insert(Media::Arrow.name().to_owned(), Content::default().into());
        }
        self.refusals.push(406);
        self
    }

    /// It may refuse with this status as well.
    pub(crate) fn may_refuse(mut self, statuses: &[u16]) -> Operation {
        self.refusals.extend(statuses);
        self
    }

    fn framed(&mut self, Shape { schema, collect }: Shape) -> Schema {
        collect(&mut self.given);
        let ok = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(["ok"]));
        let seconds = ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0));
        let seconds = seconds.description(Some("Seconds since the request arrived."));
        let frame = ObjectBuilder::new().property("result", schema).required("result");
        frame.property("status", ok).required("status").property("time", seconds).required("time").into()
    }

    /// The operation as the document has it, for those who have this right.
    pub(crate) fn build(self, access: Access) -> utoipa::openapi::path::Operation {
        let name = match access {
            Access::Public => "public",
            Access::Read => "read",
            Access::Write => "write",
            Access::Manage => "manage",
        };
        let mut statuses = vec![400, 422, 429, 500, 503];
        if access == Access::Public {
            statuses = vec![400, 429, 500, 503];
        } else {
            statuses.extend([401, 403]);
        }
        if self.pattern.contains('{') {
            statuses.push(404);
        }
        statuses.extend(self.refusals);
        statuses.sort_unstable();
        statuses.dedup();
        let mut built = OperationBuilder::new()
            .operation_id(Some(self.id))
            .tag(self.tag)
            .summary(Some(self.summary))
            .request_body(self.body)
            .extensions(Some([("x-access", name)].into_iter().collect()));
        if access == Access::Public {
            built = built.security(SecurityRequirement::default());
        }
        built = self.parameters.into_iter().fold(built, OperationBuilder::parameter);
        let given: Vec<&str> = self.replies.iter().map(|(status, _)| *status).collect();
        for status in statuses.iter().filter(|status| !given.contains(&status.to_string().as_str())) {
            built = built.response(status.to_string(), Ref::from_response_name(format!("Problem{status}")));
        }
        for (status, reply) in self.replies {
            built = built.response(status, reply);
        }
        built.build()
    }
}

fn in_json(doc: &str, schema: impl Into<RefOr<Schema>>) -> Response {
    ResponseBuilder::new().description(doc).content(Media::Json.name(), Content::new(Some(schema))).build()
}

fn in_query(name: &str, schema: impl Into<RefOr<Schema>>, doc: &str) -> ParameterBuilder {
    let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Query);
    parameter.required(Required::False).description(Some(doc)).schema(Some(schema))
}

/// A variable segment of a path.
fn in_path(name: &str) -> Parameter {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let (schema, example, doc) = match name {
        "id" => (
            text.min_length(Some(1)).max_length(Some(512)),
            json!("1"),
            "The id of a point. Digits are a number, unless `id_type` is `string`.",
        ),
        "job" => (
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)),
            json!(1),
            "The number of a job.",
        ),
        "field" => (text.min_length(Some(1)).max_length(Some(512)), json!("genre"), "A path into payloads."),
        "snapshot" => (text.min_length(Some(1)), json!("books-1.snapshot"), "The name of a snapshot."),
        "backup" => (
            text.pattern(Some("^[0-9]{8}T[0-9]{6}Z-[0-9]+$")),
            json!("20260131T235959Z-42"),
            "The id of a backup.",
        ),
        "file" => (text.min_length(Some(1)), json!("index.html"), "A file of the pages."),
        "bank" => (text.pattern(Some(NAME_PATTERN)), json!("queries"), "The name of a bank."),
        "prior" => (text.pattern(Some(NAME_PATTERN)), json!("popularity"), "The name of a prior."),
        "correction" => (text.pattern(Some(NAME_PATTERN)), json!("is"), "The name of a correction."),
        _ => {
            (text.pattern(Some(NAME_PATTERN)), json!("books"), "The name of a collection, or an alias of it.")
        }
    };
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(Some(doc))
        .schema(Some(schema.build()))
        .example(Some(example))
        .build()
}
