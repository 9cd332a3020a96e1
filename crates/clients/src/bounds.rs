//! Every bound is written once: as a field with its meaning and what happens at it. Settings and manual are made from that.

use std::fmt::Write as _;

/// A struct of bounds, its counterpart in a configuration file, and its rows in the manual. Each field says what it bounds, has a
/// type that is a [`Bound`](crate::Bound), and says after `=>` what happens when it is reached.
#[macro_export]
macro_rules! bounds {
    (
        $(#[$doc:meta])*
        $name:ident, given as $given:ident {
            $($(#[doc = $what:literal])+ $field:ident: $type:ty => $consequence:literal,)+
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

        /// What a configuration file says of them: numbers, times like `"30 s"`, or `"none"` where there need be no
        /// bound. What is left out stays as it is.
        #[derive(Debug, Clone, Default, PartialEq, Eq, serde::Deserialize)]
        #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
        pub struct $given {
            $($field: Option<$crate::Given<$type>>,)+
        }

        impl $given {
            /// Puts what is given in the place of what was.
            pub fn apply_to(&self, bounds: &mut $name) {
                $(if let Some($crate::Given(value)) = self.$field { bounds.$field = value; })+
            }
        }

        impl $name {
            /// Lines of a table: name, meaning, value in each of `columns`, consequence.
            fn rows(columns: &[Self]) -> String {
                let mut rows = String::new();
                $({
                    let name = format!("`{}`", stringify!($field).replace('_', "-"));
                    let what = [$($what.trim()),+].join(" ");
                    let values: Vec<String> = columns.iter().map(|column| $crate::Bound::to_text(&column.$field)).collect();
                    let (what, values) = (what.trim_end_matches('.'), values.join(" | "));
                    $crate::row(&mut rows, &[&name, what, &values, $consequence]);
                })+
                rows
            }
        }
    };
}

/// Rows in the manual of bounds that are no settings: what each bounds, its value, and what happens at it.
pub fn fixed(bounds: &[(&str, String, &str)]) -> String {
    let mut rows = String::new();
    for (what, value, consequence) in bounds {
        row(&mut rows, &[what, value, consequence]);
    }
    rows
}

/// Adds a row of a table in Markdown.
pub fn row(rows: &mut String, cells: &[&str]) {
    writeln!(rows, "| {} |", cells.join(" | ")).expect("text is always written to memory");
}
