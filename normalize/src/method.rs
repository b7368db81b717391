//! A correction by name: its parameters, their checks, and how it turns statistics into a score.

use std::fmt;
use std::str::FromStr;

use dehub_vector::Metric;

use crate::methods::RECIPES;
use crate::{Scorer, Statistic};

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

/// One statistic a method needs, and the bank it is taken over.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Term {
    /// The kind of bank.
    pub bank: BankKind,
    /// The statistic of each point over that bank.
    pub statistic: Statistic,
}

impl Term {
    /// A statistic over the query bank.
    pub(crate) fn query(statistic: Statistic) -> Term {
        Term { bank: BankKind::Query, statistic }
    }

    /// A statistic over the gallery bank.
    pub(crate) fn gallery(statistic: Statistic) -> Term {
        Term { bank: BankKind::Gallery, statistic }
    }
}

/// The most parameters a method has.
const PARAMETERS_MAX: usize = 4;

/// The largest neighbour count taken: a point's state holds that many numbers.
const K_MAX: usize = 65_536;

/// Candidates scored for each answer wanted, unless a method's `depth` says otherwise.
const DEPTH_FACTOR: usize = 10;

/// The fewest candidates scored, unless a method's `depth` says otherwise.
const DEPTH_MIN: usize = 100;

/// A parameter of a method.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    /// Its name in labels, commands and bodies.
    pub name: &'static str,
    /// Another name it is known by.
    pub alias: &'static str,
    /// Its value when none is given.
    pub default: f64,
    /// What it may be.
    pub kind: ParameterKind,
}

/// What a parameter may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// An inverse temperature, 1e-6 to 1e6.
    InverseTemperature,
    /// A temperature, 1e-6 to 1e6.
    Temperature,
    /// A whole number, 1 to 65,536.
    Count,
    /// A weight or an exponent, 0 to 1,000.
    Weight,
    /// A share, 0 to 0.5.
    Share,
    /// A whole number, 0 to 65,536: how many candidates are scored, 0 for ten times the limit and at
    /// least 100.
    Depth,
}

impl Parameter {
    pub(crate) const fn new(name: &'static str, kind: ParameterKind, default: f64) -> Parameter {
        Parameter { name, alias: "", default, kind }
    }

    pub(crate) const fn or(self, alias: &'static str) -> Parameter {
        Parameter { alias, ..self }
    }

    /// Whether `name` is its name or its other one.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || (!self.alias.is_empty() && self.alias == name)
    }

    #[expect(clippy::cast_precision_loss, reason = "K_MAX is far below 2^53")]
    fn check(&self, method: &'static str, value: f64) -> Result<f64, MethodError> {
        let (fits, wanted) = match self.kind {
            ParameterKind::InverseTemperature | ParameterKind::Temperature => {
                ((1e-6..=1e6).contains(&value), "a number from 0.000001 to 1000000")
            }
            ParameterKind::Count => (
                value.fract() == 0.0 && (1.0..=K_MAX as f64).contains(&value),
                "a whole number from 1 to 65536",
            ),
            ParameterKind::Depth => (
                value.fract() == 0.0 && (0.0..=K_MAX as f64).contains(&value),
                "a whole number from 0 to 65536",
            ),
            ParameterKind::Weight => ((0.0..=1e3).contains(&value), "a number from 0 to 1000"),
            ParameterKind::Share => ((0.0..=0.5).contains(&value), "a number from 0 to 0.5"),
        };
        let found = value.to_string();
        if fits {
            Ok(value)
        } else {
            Err(MethodError::BadValue { method, parameter: self.name, found, wanted })
        }
    }

    fn print(&self, value: f64) -> String {
        match self.kind {
            ParameterKind::InverseTemperature | ParameterKind::Count | ParameterKind::Depth => {
                value.to_string()
            }
            ParameterKind::Temperature | ParameterKind::Weight | ParameterKind::Share => format!("{value:?}"),
        }
    }
}

/// What keeps a correction from overshooting: biases are drawn towards their mean by `shrink`, then
/// those below the `floor` quantile are raised to it. Without a floor, a large inverse temperature
/// promotes points that the bank hardly knows above everything.
///
/// Every method takes both, as parameters `floor` and `shrink`; both are 0 unless given, as in the
/// published methods.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Guard {
    /// A share of the points, 0 to 0.5.
    pub floor: f64,
    /// A share of the distance to the mean, 0 to 0.5.
    pub shrink: f64,
}

/// The parameters of the guard.
const GUARD: [Parameter; 2] =
    [Parameter::new("floor", ParameterKind::Share, 0.0), Parameter::new("shrink", ParameterKind::Share, 0.0)];

/// The values of a method's parameters, in their order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Values([f64; PARAMETERS_MAX]);

impl Values {
    pub(crate) fn get(&self, parameter: usize) -> f64 {
        self.0[parameter]
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a count")]
    pub(crate) fn count(&self, parameter: usize) -> usize {
        self.0[parameter] as usize
    }
}

/// What a method is made of. One exists for each, in `methods`.
pub(crate) trait Recipe: Sync {
    /// The short name, as it is printed.
    fn name(&self) -> &'static str;

    /// The parameters, at most four.
    fn parameters(&self) -> &'static [Parameter];

    /// The statistics whose columns are subtracted, in the order of [`Recipe::weights`].
    fn terms(&self, values: &Values, metric: Metric) -> Vec<Term>;

    /// The statistic the similarity is multiplied by, for methods that scale it.
    fn scale(&self, _values: &Values, _metric: Metric) -> Option<Term> {
        None
    }

    /// For a gated method, the `k` of its activation sets.
    fn gate(&self, _values: &Values) -> Option<usize> {
        None
    }

    /// The weight of each term, given which gates are open.
    fn weights(&self, values: &Values, open: &[bool]) -> Vec<f64>;

    /// For a method whose score is no weighted sum, that score. Its terms and weights then rank the
    /// candidates that are scored.
    fn scorer(&self, _values: &Values) -> Option<Scorer> {
        None
    }

    /// Whether the method has a meaning under a metric; else why not.
    fn refuses(&self, _metric: Metric) -> Option<&'static str> {
        None
    }
}

/// A hubness correction with its parameters: `score = scale(p)·s − Σ weight·statistic(p)`.
#[derive(Clone, Copy)]
pub struct Method {
    recipe: &'static dyn Recipe,
    values: Values,
    guard: Guard,
}

/// Why a description is no correction.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum MethodError {
    /// No such method.
    #[error("unknown correction method `{found}`: wanted {wanted}")]
    Unknown {
        /// What was given.
        found: String,
        /// The methods there are.
        wanted: String,
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
    /// Both a temperature and the perplexity it would be found from.
    #[error("{method} takes `{parameter}` or `perplexity`, not both, and each once")]
    TwoTemperatures {
        /// The method.
        method: &'static str,
        /// The temperature.
        parameter: &'static str,
    },
    /// A guard on biases, for a method that has none.
    #[error(
        "{method} ranks by a score of its own and has no biases to guard: `{parameter}` is {found}, wanted 0"
    )]
    NoBiases {
        /// The method.
        method: &'static str,
        /// The parameter.
        parameter: &'static str,
        /// What was given.
        found: String,
    },
    /// Not of the form `NAME(parameter=value,…)`.
    #[error("`{found}` is not of the form NAME(parameter=value,...), for example IS(beta=20)")]
    Syntax {
        /// What was given.
        found: String,
    },
}

impl Method {
    /// A method by `name` (any case) with the parameters given; the others take their defaults.
    pub fn new(name: &str, parameters: &[(String, f64)]) -> Result<Method, MethodError> {
        let recipe = RECIPES.iter().copied().find(|recipe| recipe.name().eq_ignore_ascii_case(name));
        let Some(recipe) = recipe else {
            let (last, others) = RECIPES.split_last().expect("there are methods");
            let others: Vec<_> = others.iter().map(|recipe| recipe.name()).collect();
            let wanted = format!("{} or {}", others.join(", "), last.name());
            return Err(MethodError::Unknown { found: name.to_owned(), wanted });
        };
        let mut values = [0.0; PARAMETERS_MAX];
        values.iter_mut().zip(recipe.parameters()).for_each(|(value, parameter)| *value = parameter.default);
        let mut method = Method { recipe, values: Values(values), guard: Guard::default() };
        for (parameter, value) in parameters {
            method.set(parameter, *value)?;
        }
        Ok(method)
    }

    /// Every method with its defaults.
    pub fn all() -> impl Iterator<Item = Method> {
        RECIPES.iter().filter_map(|recipe| Method::new(recipe.name(), &[]).ok())
    }

    fn set(&mut self, name: &str, value: f64) -> Result<(), MethodError> {
        let method = self.name();
        if let Some(parameter) = GUARD.iter().find(|guard| guard.name == name) {
            let value = parameter.check(method, value)?;
            if value > 0.0 && self.scorer().is_some() {
                let found = value.to_string();
                return Err(MethodError::NoBiases { method, parameter: parameter.name, found });
            }
            *(if name == "floor" { &mut self.guard.floor } else { &mut self.guard.shrink }) = value;
            return Ok(());
        }
        let own = self.recipe.parameters();
        let place = own.iter().position(|own| own.is_called(name));
        let Some(place) = place else {
            let perplexity = self.temperature().map(|_| "perplexity");
            let names: Vec<_> = own.iter().chain(&GUARD).map(|own| own.name).chain(perplexity).collect();
            let wanted = names.join(", ");
            return Err(MethodError::NoParameter { method, found: name.to_owned(), wanted });
        };
        self.values.0[place] = own[place].check(method, value)?;
        Ok(())
    }

    /// The method's short name, without parameters.
    pub fn name(&self) -> &'static str {
        self.recipe.name()
    }

    /// Every parameter and its value.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, f64)> {
        self.recipe.parameters().iter().map(|parameter| parameter.name).zip(self.values.0)
    }

    /// The parameter that is a temperature over the query bank, or an inverse one. It is the first.
    pub fn temperature(&self) -> Option<Parameter> {
        let first = self.recipe.parameters().first().filter(|_| self.uses(BankKind::Query))?;
        match first.kind {
            ParameterKind::InverseTemperature | ParameterKind::Temperature => Some(*first),
            ParameterKind::Count | ParameterKind::Weight | ParameterKind::Share | ParameterKind::Depth => {
                None
            }
        }
    }

    /// The same method at an inverse temperature over the query bank, to three digits.
    pub(crate) fn with_inverse_temperature(mut self, beta: f64) -> Method {
        let three_digits = |number: f64| format!("{number:.2e}").parse().unwrap_or(number).clamp(1e-6, 1e6);
        match self.temperature().map(|parameter| parameter.kind) {
            Some(ParameterKind::InverseTemperature) => self.values.0[0] = three_digits(beta),
            Some(ParameterKind::Temperature) => self.values.0[0] = three_digits(beta.recip()),
            Some(
                ParameterKind::Count | ParameterKind::Weight | ParameterKind::Share | ParameterKind::Depth,
            )
            | None => {}
        }
        self
    }

    /// What keeps the biases from overshooting.
    pub fn guard(&self) -> Guard {
        self.guard
    }

    /// What each parameter may be.
    pub fn kinds(&self) -> impl Iterator<Item = ParameterKind> {
        self.recipe.parameters().iter().map(|parameter| parameter.kind)
    }

    /// Why the method has no meaning under a metric, if it has none.
    pub fn refuses(&self, metric: Metric) -> Option<&'static str> {
        self.recipe.refuses(metric)
    }

    /// Why the method has no meaning where points have several vectors, compared by MaxSim, if it has none. MaxSim of
    /// a query and a point is not that of the point and the query, and no vector is the mean of several such.
    pub fn refuses_multi(&self, metric: Metric) -> Option<&'static str> {
        if self.scorer().is_some() {
            return Some("its score is no weighted sum of similarities to a bank");
        }
        let refuses = |statistic: &Statistic| match statistic {
            Statistic::Sinkhorn { .. } => Some("it balances similarities both ways, and MaxSim goes one way"),
            Statistic::CentroidPull { .. } => Some("it needs the mean of vectors"),
            Statistic::LogSumExp { .. }
            | Statistic::TopMean { .. }
            | Statistic::TopMeanPower { .. }
            | Statistic::KthUnit { .. }
            | Statistic::MeanUnit { .. }
            | Statistic::Mean
            | Statistic::MeanByDeviation
            | Statistic::InverseDeviation
            | Statistic::Largest { .. } => None,
        };
        self.statistics(metric).iter().find_map(|term| refuses(&term.statistic))
    }

    /// The statistics the method subtracts, in the order of [`Method::weights`].
    pub fn terms(&self, metric: Metric) -> Vec<Term> {
        self.recipe.terms(&self.values, metric)
    }

    /// The statistic the similarity is multiplied by, for methods that scale it.
    pub fn scale(&self, metric: Metric) -> Option<Term> {
        self.recipe.scale(&self.values, metric)
    }

    /// Every statistic the method needs: those it subtracts, then its scale.
    pub fn statistics(&self, metric: Metric) -> Vec<Term> {
        self.terms(metric).into_iter().chain(self.scale(metric)).collect()
    }

    /// For a method whose score is no weighted sum, that score.
    pub fn scorer(&self) -> Option<Scorer> {
        self.recipe.scorer(&self.values)
    }

    /// For such a method, how many candidates of a walk are scored for `limit` answers.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be a count")]
    pub fn depth(&self, limit: usize) -> usize {
        let of_kind = |(place, own): (usize, &Parameter)| {
            (own.kind == ParameterKind::Depth).then(|| self.values.get(place) as usize)
        };
        match self.recipe.parameters().iter().enumerate().find_map(of_kind) {
            None | Some(0) => limit.saturating_mul(DEPTH_FACTOR).max(DEPTH_MIN),
            Some(depth) => depth.max(limit),
        }
    }

    /// The kinds of bank the method needs, with how many entries each must have at least.
    pub fn banks(&self, metric: Metric) -> Vec<(BankKind, usize)> {
        let terms = self.statistics(metric);
        let term = |term: &Term| (term.bank, term.statistic.neighbours().unwrap_or(1));
        let beside = terms.iter().filter_map(|term| Some((term.statistic.beside()?, 1)));
        let of_query = self.scorer().and_then(Scorer::query_bank).map(|kind| (kind, 1));
        terms.iter().map(term).chain(beside).chain(of_query).collect()
    }

    /// Whether the method is fitted from a bank of this kind.
    pub fn uses(&self, kind: BankKind) -> bool {
        // Which banks a method uses does not depend on the metric; every method serves cosine.
        self.banks(Metric::Cosine).iter().any(|&(own, _)| own == kind)
    }

    /// For a method with a gate, the `k` of its activation sets, one set for each term's bank.
    pub fn gate(&self) -> Option<usize> {
        self.recipe.gate(&self.values)
    }

    /// The weight of each term. `open` says for each term whether its gate is open, that is, whether
    /// the query's raw best point is in the activation set; a method without a gate ignores it.
    pub fn weights(&self, open: &[bool]) -> Vec<f64> {
        self.recipe.weights(&self.values, open)
    }
}

impl PartialEq for Method {
    fn eq(&self, other: &Method) -> bool {
        self.name() == other.name() && self.values == other.values && self.guard == other.guard
    }
}

impl fmt::Debug for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Method {
    /// The label in tables, which [`Method::from_str`] reads back: `IS(beta=20)`,
    /// `NNN(alpha=1.0,k=16)`, `DualIS(b1=b2=20)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let own = self.recipe.parameters();
        let printed = |place: usize| own[place].print(self.values.0[place]);
        let mut items: Vec<String> = Vec::new();
        let mut place = 0;
        while place < own.len() {
            let pair = own[place].name == "b1" && self.values.0[place] == self.values.0[place + 1];
            let is_default_depth = own[place].kind == ParameterKind::Depth && self.values.0[place] == 0.0;
            if is_default_depth {
                place += 1;
                continue;
            }
            if pair {
                items.push(format!("b1=b2={}", printed(place)));
                place += 1;
            } else {
                items.push(format!("{}={}", own[place].name, printed(place)));
            }
            place += 1;
        }
        for (parameter, value) in GUARD.iter().zip([self.guard.floor, self.guard.shrink]) {
            if value > 0.0 {
                items.push(format!("{}={}", parameter.name, parameter.print(value)));
            }
        }
        f.write_str(self.name())?;
        if items.is_empty() { Ok(()) } else { write!(f, "({})", items.join(",")) }
    }
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Method, MethodError> {
        let (name, parameters) = parse_label(text)?;
        Method::new(name, &parameters)
    }
}

/// Parameters by name.
pub(crate) type Parameters = Vec<(String, f64)>;

/// The name and the parameters of a label.
pub(crate) fn parse_label(text: &str) -> Result<(&str, Parameters), MethodError> {
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
    Ok((name.trim(), parameters))
}
