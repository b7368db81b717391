//! Who may ask for what. Every path is behind [`admitted`]; without any key everybody may do everything.

use std::path::PathBuf;
use std::rc::Rc;

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse};
use actix_web::http::{Method, header};
use actix_web::{Error, HttpMessage, HttpRequest, web};
use arc_swap::ArcSwap;

use crate::call::segments;
use crate::edge::Edge;
use crate::errors::{FORBIDDEN, INTERNAL, UNAUTHENTICATED};
use crate::keys::{Key, KeyError, Keys};
use crate::problem::Problem;
use crate::receive;
use crate::routes::Access;

/// The header for keys that Qdrant's clients send.
const KEY_HEADER: &str = "api-key";

/// The scheme of the header `Authorization`.
const BEARER: &str = "bearer ";

/// Knows the keys.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    given: Vec<Key>,
    file: Option<PathBuf>,
    keys: ArcSwap<Keys>,
}

/// Who asks.
#[derive(Debug, Clone)]
pub(crate) enum Caller {
    /// Anybody: the server has no keys.
    Anybody,
    /// Somebody without a key, or with one that is not known.
    Nobody,
    /// Whoever has this key.
    Holder(Key),
}

/// What was asked for by whom: left with the request, for the log.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) caller: Caller,
    pub(crate) access: Access,
    /// The collection that the path names.
    pub(crate) collection: Option<String>,
    /// Whether it was refused for lack of rights.
    pub(crate) is_refused: bool,
}

impl Guard {
    /// Knows these keys, and those of a file.
    pub(crate) fn open(given: Vec<Key>, file: Option<PathBuf>) -> Result<Guard, KeyError> {
        let keys = Keys::read(&given, file.as_deref())?;
        Ok(Guard { given, file, keys: ArcSwap::from_pointee(keys) })
    }

    /// Reads the file again; says how many keys there are. If it cannot, the keys stay as they are.
    pub(crate) fn reload(&self) -> Result<usize, KeyError> {
        let keys = Keys::read(&self.given, self.file.as_deref())?;
        let count = keys.len();
        self.keys.store(keys.into());
        Ok(count)
    }

    /// The file of keys.
    pub(crate) fn file(&self) -> Option<&PathBuf> {
        self.file.as_ref()
    }

    /// Whether everybody may do everything.
    pub(crate) fn is_open(&self) -> bool {
        self.keys.load().is_empty()
    }

    /// Who sends this request.
    pub(crate) fn caller(&self, request: &HttpRequest) -> Caller {
        let keys = self.keys.load();
        if keys.is_empty() {
            return Caller::Anybody;
        }
        match sent(request).and_then(|secret| keys.find(secret)) {
            Some(key) => Caller::Holder(key.clone()),
            None => Caller::Nobody,
        }
    }
}

/// The key in the headers.
fn sent(request: &HttpRequest) -> Option<&[u8]> {
    let headers = request.headers();
    if let Some(value) = headers.get(KEY_HEADER) {
        return Some(value.as_bytes());
    }
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, secret) = value.split_at_checked(BEARER.len())?;
    scheme.eq_ignore_ascii_case(BEARER.as_bytes()).then(|| secret.trim_ascii())
}

impl Caller {
    /// The caller of a request that passed the guard; nobody, of one that did not.
    pub(crate) fn of(request: &HttpRequest) -> Caller {
        request.extensions().get::<Asked>().map_or(Caller::Nobody, |asked| asked.caller.clone())
    }

    /// The name of the key.
    pub(crate) fn name(&self) -> Option<&str> {
        match self {
            Caller::Anybody | Caller::Nobody => None,
            Caller::Holder(key) => Some(key.name()),
        }
    }

    /// Whether this collection may be read, and so be seen in lists.
    pub(crate) fn may_read(&self, collection: &str) -> bool {
        self.may(Access::Read, Some(collection))
    }

    fn may(&self, access: Access, collection: Option<&str>) -> bool {
        match self {
            Caller::Anybody => true,
            Caller::Nobody => access == Access::Public,
            Caller::Holder(key) => key.may(access, collection),
        }
    }

    /// Nothing if it may, and what is missing if not.
    fn check(&self, access: Access, collection: Option<&str>) -> Result<(), Problem> {
        if self.may(access, collection) {
            return Ok(());
        }
        let Some(name) = self.name() else {
            let detail = "this server wants an API key that it knows, in the header `api-key` or as \
                          `Authorization: Bearer`";
            return Err(Problem::new(UNAUTHENTICATED, detail).authenticate());
        };
        let needed = match (access, collection) {
            (Access::Manage, _) => "an admin key".to_owned(),
            (_, Some(collection)) => format!("a key that may {} `{collection}`", access.verb()),
            (_, None) => format!("a key that may {} every collection", access.verb()),
        };
        let detail = format!("the key `{name}` may not do this: it needs {needed}");
        Err(Problem::new(FORBIDDEN, detail).wanted(needed).found(format_args!("the key `{name}`")))
    }
}

/// Lets a request pass, and leaves with it who asks, or says why not.
pub(crate) fn check(request: &HttpRequest, access: Access) -> Result<(), Problem> {
    let Some(edge) = request.app_data::<web::Data<Edge>>() else {
        return Err(Problem::new(INTERNAL, "the application has no edge"));
    };
    let caller = edge.guard().caller(request);
    // A name that cannot be decoded is that of no collection.
    let named = segments(request).map(|mut segments| segments.remove("collection")).unwrap_or_default();
    let is_of_one = request.match_info().get("collection").is_some();
    let collection = is_of_one.then(|| edge.resolved(&named.unwrap_or_default()));
    let verdict = edge.hosts().check(request).and_then(|()| edge.cors().check(request));
    let verdict = verdict.and_then(|()| caller.check(access, collection.as_deref()));
    let asked = Asked { caller, access, collection, is_refused: verdict.is_err() };
    request.extensions_mut().insert(asked);
    verdict
}

/// Looks again, at the collection that is about to be worked on: an alias may have become that of another one since
/// [`check`] has looked.
pub(crate) fn check_resolved(request: &HttpRequest, collection: &str) -> Result<(), Problem> {
    let extensions = request.extensions();
    let asked = extensions.get::<Asked>();
    asked.map_or(Ok(()), |asked| asked.caller.check(asked.access, Some(collection)))
}

/// Answers a request to one of `entries` if it may be asked; a method that is none of them needs the right to manage.
/// A refusal comes without a look at the body.
pub(crate) fn admitted<S, B>(
    entries: &Rc<[(Method, Access)]>,
    request: ServiceRequest,
    service: &S,
) -> impl Future<Output = Result<ServiceResponse<BoxBody>, Error>> + use<S, B>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error>,
    S::Future: 'static,
    B: MessageBody + 'static,
{
    let listed = entries.iter().find(|(method, _)| method == request.method());
    let access = listed.map_or(Access::Manage, |&(_, access)| access);
    let passed = match check(request.request(), access) {
        Ok(()) => Ok(service.call(request)),
        Err(problem) => Err((request, problem)),
    };
    async move {
        match passed {
            Ok(response) => response.await.map(ServiceResponse::map_into_boxed_body),
            Err((mut request, problem)) => {
                if let Some(edge) = request.app_data::<web::Data<Edge>>().cloned() {
                    let payload = request.take_payload();
                    receive::discard(request.request(), payload, &edge).await;
                }
                Ok(request.into_response(problem.response()))
            }
        }
    }
}
