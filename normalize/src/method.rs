//! The corrections by name: parameters, their checks, and how each turns statistics into a score.

use std::fmt;
use std::str::FromStr;

use crate::Statistic;

/// What the vectors of a bank stand for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BankKind {
    /// Reference queries: what users ask.
    Query,
    /// Reference points: what is asked for.
    Gallery,
}

impl BankKind {
    /// The name in commands, bodies and messages.
    pub fn name(self) -> &'static str {
        match self {
            BankKind::Query => "query",
            BankKind::Gallery => "gallery",
        }
    }
}

impl fmt::Display for BankKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A hubness correction with its parameters. `s` is the similarity of a query and a point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// Inverted softmax: `s − LSE_β/β` (Smith et al., ICLR 2017).
    Is {
        /// Inverse temperature. Default 20, that of QB-Norm.
        beta: f64,
    },
    /// Dynamic inverted softmax: IS when the raw best point is in the activation set of the
    /// bank's top `k`, else raw (Bogolin et al., QB-Norm, CVPR 2022).
    Dis {
        /// Inverse temperature. Default 20.
        beta: f64,
        /// Points of each bank query in the activation set. Default 1.
        k: usize,
    },
    /// Cross-domain similarity local scaling: `s − ½·mean of the k largest`
    /// (Lample et al., ICLR 2018; the query's own term does not change its ranking).
    Csls {
        /// Neighbours in the bank. Default 10.
        k: usize,
    },
    /// Nearest neighbour normalisation: `s − α·mean of the k largest` (Chowdhury et al., EMNLP 2024).
    Nnn {
        /// Weight of the bias. Default 0.75.
        alpha: f64,
        /// Neighbours in the bank. Default 16.
        k: usize,
    },
    /// Dual inverted softmax: `s − (LSE_β1 + LSE_β2)/(β1 + β2)` over a query and a gallery bank
    /// (Wang et al., *Balance Act*, EMNLP Findings 2023).
    DualIs {
        /// Inverse temperature of the query bank. Default 20.
        beta_query: f64,
        /// Inverse temperature of the gallery bank. Default 20.
        beta_gallery: f64,
    },
    /// Dual dynamic inverted softmax in the log domain: each bank's term counts only when the raw
    /// best point is in that bank's activation set; the published product of probabilities is not
    /// monotone in `s` and is not served.
    DualDis {
        /// Inverse temperature of the query bank. Default 20.
        beta_query: f64,
        /// Inverse temperature of the gallery bank. Default 20.
        beta_gallery: f64,
        /// Points of each bank entry in an activation set. Default 1.
        k: usize,
    },
}

/// One statistic a method needs, and the bank it is taken over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// The kind of bank.
    pub bank: BankKind,
    /// The statistic of each point over that bank.
    pub statistic: Statistic,
}

/// Why a description is no correction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MethodError {
    /// No such method.
    #[error("unknown correction method `{found}`: wanted IS, DIS, CSLS, NNN, DualIS or DualDIS")]
    Unknown {
        /// What was given.
        found: String,
    },
    /// The method has no such parameter.
    #[error("{method} has no parameter `{found}`: wanted {wanted}")]
    NoParameter {
        /// The method.
        method: &'static str,
        /// What was given.
        found: String,
        /// The parameters it has.
        wanted: String,
    },
    /// A value outside a parameter's range.
    #[error("parameter `{parameter}` of {method} is {found}, wanted {wanted}")]
    BadValue {
        /// The method.
        method: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// What was given.
        found: String,
        /// What its range is.
        wanted: &'static str,
    },
    /// Not of the form `NAME(parameter=value,…)`.
    #[error("`{found}` is not of the form NAME(parameter=value,...), for example IS(beta=20)")]
    Syntax {
        /// What was given.
        found: String,
    },
}

/// The smallest inverse temperature taken: `ln |B| / β` swamps the similarities' digits below it, where
/// an inverted softmax is a plain mean anyway.
const BETA_MIN: f64 = 1e-6;
/// The largest inverse temperature taken: beyond it an inverted softmax is a maximum to every digit.
const BETA_MAX: f64 = 1e6;
/// The largest neighbour count taken: a point's state holds that many numbers.
const K_MAX: usize = 65_536;
/// The largest weight taken.
const ALPHA_MAX: f64 = 1e3;

impl Method {
    /// A method by `name` (any case) with the parameters given; the others take their defaults.
    pub fn new(name: &str, parameters: &[(String, f64)]) -> Result<Method, MethodError> {
        let mut method = match name.to_ascii_lowercase().as_str() {
            "is" => Method::Is { beta: 20.0 },
            "dis" => Method::Dis { beta: 20.0, k: 1 },
            "csls" => Method::Csls { k: 10 },
            "nnn" => Method::Nnn { alpha: 0.75, k: 16 },
            "dualis" => Method::DualIs { beta_query: 20.0, beta_gallery: 20.0 },
            "dualdis" => Method::DualDis { beta_query: 20.0, beta_gallery: 20.0, k: 1 },
            _ => return Err(MethodError::Unknown { found: name.to_owned() }),
        };
        for (parameter, value) in parameters {
            method.set(parameter, *value)?;
        }
        Ok(method)
    }

    fn set(&mut self, parameter: &str, value: f64) -> Result<(), MethodError> {
        let method = self.name();
        match (self, parameter) {
            (Method::Is { beta } | Method::Dis { beta, .. }, "beta")
            | (
                Method::DualIs { beta_query: beta, .. } | Method::DualDis { beta_query: beta, .. },
                "b1" | "beta_query",
            )
            | (
                Method::DualIs { beta_gallery: beta, .. } | Method::DualDis { beta_gallery: beta, .. },
                "b2" | "beta_gallery",
            ) => *beta = checked_beta(method, value)?,
            (
                Method::Dis { k, .. }
                | Method::Csls { k }
                | Method::Nnn { k, .. }
                | Method::DualDis { k, .. },
                "k",
            ) => *k = checked_k(method, value)?,
            (Method::Nnn { alpha, .. }, "alpha") => *alpha = checked_alpha(method, value)?,
            (unchanged, _) => {
                let wanted = unchanged.parameters().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
                return Err(MethodError::NoParameter { method, found: parameter.to_owned(), wanted });
            }
        }
        Ok(())
    }

    /// The method's short name, without parameters.
    pub fn name(&self) -> &'static str {
        match self {
            Method::Is { .. } => "IS",
            Method::Dis { .. } => "DIS",
            Method::Csls { .. } => "CSLS",
            Method::Nnn { .. } => "NNN",
            Method::DualIs { .. } => "DualIS",
            Method::DualDis { .. } => "DualDIS",
        }
    }

    /// Every parameter and its value.
    #[expect(clippy::cast_precision_loss, reason = "k is at most K_MAX")]
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, f64)> {
        let list = match *self {
            Method::Is { beta } => vec![("beta", beta)],
            Method::Dis { beta, k } => vec![("beta", beta), ("k", k as f64)],
            Method::Csls { k } => vec![("k", k as f64)],
            Method::Nnn { alpha, k } => vec![("alpha", alpha), ("k", k as f64)],
            Method::DualIs { beta_query, beta_gallery } => vec![("b1", beta_query), ("b2", beta_gallery)],
            Method::DualDis { beta_query, beta_gallery, k } => {
                vec![("b1", beta_query), ("b2", beta_gallery), ("k", k as f64)]
            }
        };
        list.into_iter()
    }

    /// The statistics the method needs, in the order of [`Method::weights`].
    pub fn terms(&self) -> Vec<Term> {
        let log_sum_exp = |bank, beta| Term { bank, statistic: Statistic::LogSumExp { beta } };
        match *self {
            Method::Is { beta } | Method::Dis { beta, .. } => vec![log_sum_exp(BankKind::Query, beta)],
            Method::Csls { k } | Method::Nnn { k, .. } => {
                vec![Term { bank: BankKind::Query, statistic: Statistic::TopMean { k } }]
            }
            Method::DualIs { beta_query, beta_gallery }
            | Method::DualDis { beta_query, beta_gallery, .. } => {
                vec![log_sum_exp(BankKind::Query, beta_query), log_sum_exp(BankKind::Gallery, beta_gallery)]
            }
        }
    }

    /// For a method with a gate, the `k` of its activation sets, one set for each term's bank.
    pub fn gate(&self) -> Option<usize> {
        match *self {
            Method::Dis { k, .. } | Method::DualDis { k, .. } => Some(k),
            Method::Is { .. } | Method::Csls { .. } | Method::Nnn { .. } | Method::DualIs { .. } => None,
        }
    }

    /// The weight of each term. `open` says for each term whether its gate is open, that is, whether
    /// the query's raw best point is in the activation set; a method without a gate ignores it.
    pub fn weights(&self, open: &[bool]) -> Vec<f64> {
        match *self {
            Method::Is { .. } => vec![1.0],
            Method::Csls { .. } => vec![0.5],
            Method::Nnn { alpha, .. } => vec![alpha],
            Method::Dis { .. } => vec![f64::from(u8::from(open[0]))],
            Method::DualIs { beta_query, beta_gallery } => shares(&[beta_query, beta_gallery]).into(),
            Method::DualDis { beta_query, beta_gallery, .. } => {
                let mass = |beta, open| if open { beta } else { 0.0 };
                shares(&[mass(beta_query, open[0]), mass(beta_gallery, open[1])]).into()
            }
        }
    }
}

/// Each part of the whole; all 0 when the whole is.
fn shares(masses: &[f64; 2]) -> [f64; 2] {
    let whole = masses[0] + masses[1];
    masses.map(|mass| if whole > 0.0 { mass / whole } else { 0.0 })
}

fn checked_beta(method: &'static str, value: f64) -> Result<f64, MethodError> {
    if (BETA_MIN..=BETA_MAX).contains(&value) {
        return Ok(value);
    }
    let wanted = "a number from 0.000001 to 1000000";
    Err(MethodError::BadValue { method, parameter: "beta", found: value.to_string(), wanted })
}

fn checked_alpha(method: &'static str, value: f64) -> Result<f64, MethodError> {
    if (0.0..=ALPHA_MAX).contains(&value) {
        return Ok(value);
    }
    let wanted = "a number from 0 to 1000";
    Err(MethodError::BadValue { method, parameter: "alpha", found: value.to_string(), wanted })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be a whole number in range"
)]
#[expect(clippy::cast_precision_loss, reason = "K_MAX is far below 2^53")]
fn checked_k(method: &'static str, value: f64) -> Result<usize, MethodError> {
    if value.fract() == 0.0 && (1.0..=K_MAX as f64).contains(&value) {
        return Ok(value as usize);
    }
    let wanted = "a whole number from 1 to 65536";
    Err(MethodError::BadValue { method, parameter: "k", found: value.to_string(), wanted })
}

impl fmt::Display for Method {
    /// The label in tables, which [`Method::from_str`] reads back: `IS(beta=20)`,
    /// `NNN(alpha=1.0,k=16)`, `DualIS(b1=b2=20)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match *self {
            Method::Is { beta } => write!(f, "(beta={beta})"),
            Method::Dis { beta, k } => write!(f, "(beta={beta},k={k})"),
            Method::Csls { k } => write!(f, "(k={k})"),
            Method::Nnn { alpha, k } => write!(f, "(alpha={alpha:?},k={k})"),
            Method::DualIs { beta_query, beta_gallery } => write!(f, "({})", Betas(beta_query, beta_gallery)),
            Method::DualDis { beta_query, beta_gallery, k } => {
                write!(f, "({},k={k})", Betas(beta_query, beta_gallery))
            }
        }
    }
}

struct Betas(f64, f64);

impl fmt::Display for Betas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Betas(query, gallery) = self;
        if query == gallery { write!(f, "b1=b2={query}") } else { write!(f, "b1={query},b2={gallery}") }
    }
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Method, MethodError> {
        let syntax = || MethodError::Syntax { found: text.to_owned() };
        let (name, list) = match text.split_once('(') {
            None => (text, ""),
            Some((name, rest)) => (name, rest.strip_suffix(')').ok_or_else(syntax)?),
        };
        let mut parameters = Vec::new();
        for item in list.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            // `b1=b2=20` sets both.
            let (names, value) = item.rsplit_once('=').ok_or_else(syntax)?;
            let value: f64 = value.trim().parse().map_err(|_| syntax())?;
            parameters.extend(names.split('=').map(|name| (name.trim().to_ascii_lowercase(), value)));
        }
        Method::new(name.trim(), &parameters)
    }
}
