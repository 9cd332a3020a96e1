//! A macro that declares each limit once, with its meaning and its effect; settings and manual are generated from it.

use std::fmt::Write as _;

/// Declares a struct of limits, its counterpart in a configuration file, and its rows in the manual.
///
/// The doc comment of a field states its meaning; its type is a [`Bound`](crate::Bound); the value after `=` is its
/// default; the text after `=>` states the effect of reaching the limit.
#[macro_export]
macro_rules! bounds {
    (
        $(#[$doc:meta])*
        $name:ident, given as $given:ident {
            $($(#[doc = $what:literal])+ $field:ident: $type:ty = $default:expr => $consequence:literal,)+
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct $name {
            $(
                $(#[doc = $what])+
                #[doc = concat!("\n\nWhen it is reached: ", $consequence, ".")]
                pub $field: $type,
            )+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        /// The limits given in a configuration file: numbers, times like `"30 s"`, or `"none"` where a limit is
        /// optional. An absent entry leaves the limit unchanged.
        #[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
        #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
        pub struct $given {
            $($field: Option<$crate::Given<$type>>,)+
        }

        impl $given {
            /// Overwrites the limits that are given.
            pub fn apply_to(&self, bounds: &mut $name) {
                $(if let Some($crate::Given(value)) = self.$field { bounds.$field = value; })+
            }
        }

        impl $name {
            /// Returns rows of a Markdown table: name, meaning, value in each of `columns`, effect.
            fn rows(columns: &[Self]) -> String {
                let mut rows = String::new();
                $({
                    let name = format!("`{}`", stringify!($field).replace('_', "-"));
                    let what = [$($what.trim()),+].join(" ");
                    let values = columns.iter().map(|column| $crate::Bound::to_text(&column.$field));
                    let values: Vec<String> = values.collect();
                    let (what, values) = (what.trim_end_matches('.'), values.join(" | "));
                    $crate::row(&mut rows, &[&name, what, &values, $consequence]);
                })+
                rows
            }
        }
    };
}

/// Declares limits that are no settings: a constant each, and `fixed_rows`, which returns their rows in the manual:
/// meaning, value, effect.
///
/// The doc comment states the meaning. Limits of other crates follow after `;`, as `"meaning": value => "effect"`.
#[macro_export]
macro_rules! fixed_bounds {
    (
        $(#[doc = $what:literal] $name:ident: $type:ty = $value:expr => $consequence:literal),* $(,)?
        $(; $($other:literal: $elsewhere:expr => $effect:literal,)+)?
    ) => {
        $(
            #[doc = $what]
            #[doc = concat!("\n\nWhen it is reached: ", $consequence, ".")]
            pub(crate) const $name: $type = $value;
        )*

        fn fixed_rows() -> String {
            let mut rows = String::new();
            $(
                let (what, value) = ($what.trim().trim_end_matches('.'), $crate::Bound::to_text(&$name));
                $crate::row(&mut rows, &[what, &value, $consequence]);
            )*
            $($($crate::row(&mut rows, &[$other, &$crate::Bound::to_text(&$elsewhere), $effect]);)+)?
            rows
        }
    };
}

/// Appends a row of a Markdown table.
pub fn row(rows: &mut String, cells: &[&str]) {
    writeln!(rows, "| {} |", cells.join(" | ")).expect("writing to memory never fails");
}
