//! Statements: changes of tables, definitions, transactions. A statement that nothing here knows is refused
//! where it would be done.

use super::{Checked, absent, none, refuse};
use datafusion::sql::sqlparser::ast::{
    AlterTable, AlterTableOperation, CheckConstraint, ColumnDef, ColumnOption, ColumnOptionDef, CreateIndex,
    CreateView, Delete, ForeignKeyConstraint, IndexColumn, Insert, Merge, MergeAction, MergeClause,
    MergeInsertExpr, MergeUpdateExpr, NullsDistinctOption, ObjectType, PrimaryKeyConstraint,
    ShowStatementOptions, Spanned, Statement, TableConstraint, TransactionAccessMode, TransactionMode,
    Truncate, TruncateIdentityOption, TruncateTableTarget, UniqueConstraint, Update, ViewColumnDef,
};
use std::ops::ControlFlow;

/// Why a constraint cannot be deferred.
const LATER: &str =
    "a constraint holds after every statement: leave out deferrable, initially and not enforced";

/// Why a column cannot be an identity.
const COUNTS: &str = "a column counts by a sequence: create sequence s, and default nextval('s')";

/// Checks a statement, without the queries inside of it.
pub(super) fn check_statement(statement: &Statement) -> Checked {
    match statement {
        Statement::Insert(insert) => self::insert(insert),
        Statement::Update(update) => self::update(update),
        Statement::Delete(delete) => self::delete(delete),
        Statement::Merge(merge) => self::merge(merge),
        Statement::CreateView(view) => self::view(view),
        // DataFusion's planner takes apart what else there is of a table.
        Statement::CreateTable(table) => {
            table.columns.iter().try_for_each(|column| self::column(column, statement))?;
            table.constraints.iter().try_for_each(constraint)
        }
        Statement::CreateIndex(index) => self::index(index),
        Statement::AlterTable(alter) => self::alter(alter),
        Statement::Truncate(truncate) => self::truncate(truncate, statement),
        Statement::Drop {
            object_type,
            if_exists: _,
            names: _,
            cascade,
            restrict: _,
            purge,
            temporary,
            table,
        } => {
            let others = *cascade && *object_type != ObjectType::Schema;
            absent(
                &others,
                "drop takes one thing away: drop what depends on it first, without cascade",
                statement,
            )?;
            absent(temporary, "a name is of one table: leave out temporary", statement)?;
            absent(purge, "leave out purge: what is dropped is gone", statement)?;
            absent(table, "an index has a name of its own: leave out on", statement)
        }
        Statement::StartTransaction {
            modes,
            begin: _,
            transaction: _,
            modifier: _,
            statements,
            exception,
            has_end_keyword: _,
        } => {
            let read_only = modes.contains(&TransactionMode::AccessMode(TransactionAccessMode::ReadOnly));
            absent(&read_only, "a transaction may always write: leave out read only", statement)?;
            absent(statements, "write the statements of a transaction one by one", statement)?;
            absent(exception, "a transaction has no exceptions", statement)
        }
        Statement::Commit { chain, end: _, modifier: _ } => {
            absent(chain, "leave out and chain: write begin", statement)
        }
        Statement::Rollback { chain, savepoint } => {
            absent(chain, "leave out and chain: write begin", statement)?;
            absent(
                savepoint,
                "there are no savepoints: rollback takes all of the transaction back",
                statement,
            )
        }
        Statement::Execute {
            name: _,
            parameters: _,
            has_parentheses: _,
            immediate,
            into,
            using: _,
            output,
            default,
        } => {
            absent(immediate, "execute takes a name: prepare q as …", statement)?;
            absent(into, "execute puts its rows nowhere: leave out into", statement)?;
            absent(output, "execute has no output: leave it out", statement)?;
            absent(default, "give execute all values", statement)
        }
        Statement::Explain {
            describe_alias: _,
            analyze: _,
            verbose: _,
            query_plan: _,
            estimate: _,
            statement: _,
            format,
            options,
        } => {
            absent(format, "a plan has one format: leave out format", statement)?;
            absent(options, "explain has no options: write explain analyze", statement)
        }
        Statement::ShowTables { terse: _, history: _, extended: _, full: _, external: _, show_options }
        | Statement::ShowColumns { extended: _, full: _, show_options } => shown(show_options, statement),
        Statement::CreateSequence {
            temporary: _,
            if_not_exists: _,
            name: _,
            data_type: _,
            sequence_options: _,
            owned_by,
        } => absent(owned_by, "a sequence is nobody's: leave out owned by", statement),
        Statement::CreateSchema {
            schema_name: _,
            if_not_exists: _,
            with,
            options,
            default_collate_spec,
            clone,
        } => {
            absent(with, "a schema has no options", statement)?;
            absent(options, "a schema has no options", statement)?;
            absent(default_collate_spec, "texts have one order: leave out collate", statement)?;
            absent(clone, "a schema cannot be copied: create its tables", statement)
        }
        _ => ControlFlow::Continue(()),
    }
}

/// `show …`.
fn shown(options: &ShowStatementOptions, around: &Statement) -> Checked {
    let ShowStatementOptions { show_in: _, starts_with, limit, limit_from, filter_position: _ } = options;
    absent(starts_with, "write like 'a%' in place of starts with", around)?;
    absent(limit, "show has no limit: select from information_schema.tables", around)?;
    absent(limit_from, "show has no limit: select from information_schema.tables", around)
}

/// `insert`.
fn insert(insert: &Insert) -> Checked {
    let Insert {
        insert_token: _,
        optimizer_hints: _,
        or: _,
        ignore: _,
        into: _,
        table: _,
        table_alias: _,
        columns: _,
        overwrite: _,
        source: _,
        assignments,
        partitioned,
        after_columns,
        has_table_keyword: _,
        on: _,
        returning: _,
        output,
        replace_into: _,
        priority,
        insert_alias,
        settings,
        format_clause,
        multi_table_insert_type,
        multi_table_into_clauses,
        multi_table_when_clauses,
        multi_table_else_clause,
    } = insert;
    absent(assignments, "insert … set is not there: write (a, b) values (1, 2)", insert)?;
    absent(partitioned, "a table has no partitions: leave out partition", insert)?;
    absent(after_columns, "a table has no partitions: leave out partition", insert)?;
    none(output, "write returning in place of output")?;
    absent(priority, "an insert has no priority", insert)?;
    absent(insert_alias, "what is inserted has no name of its own: on conflict calls it excluded", insert)?;
    absent(settings, "a statement has no settings of its own: write set before it", insert)?;
    absent(format_clause, "an insert has no format: insert into t from 'file' reads one", insert)?;
    let several = "insert takes one table: write an insert for each";
    absent(multi_table_insert_type, several, insert)?;
    absent(multi_table_into_clauses, several, insert)?;
    absent(multi_table_when_clauses, several, insert)?;
    absent(multi_table_else_clause, several, insert)
}

/// `update`.
fn update(update: &Update) -> Checked {
    let Update {
        update_token: _,
        optimizer_hints: _,
        table: _,
        assignments: _,
        from: _,
        selection: _,
        returning: _,
        output,
        or,
        order_by,
        limit,
    } = update;
    none(output, "write returning in place of output")?;
    absent(or, "an update breaks off where a constraint does not hold: leave out or …", update)?;
    let all = "update takes all rows of a condition: write where id in (select id from … order by … limit …)";
    absent(order_by, all, update)?;
    none(limit, all)
}

/// `delete`.
fn delete(delete: &Delete) -> Checked {
    let Delete {
        delete_token: _,
        optimizer_hints: _,
        tables,
        from: _,
        using: _,
        selection: _,
        returning: _,
        output,
        order_by,
        limit,
    } = delete;
    absent(tables, "delete takes rows of one table: delete from t using …", delete)?;
    none(output, "write returning in place of output")?;
    let all = "delete takes all rows of a condition: write where id in (select id from … order by … limit …)";
    absent(order_by, all, delete)?;
    none(limit, all)
}

/// `merge`.
fn merge(merge: &Merge) -> Checked {
    // `output` is refused when the merge is planned.
    let Merge { merge_token: _, optimizer_hints: _, into: _, table: _, source: _, on: _, clauses, output: _ } =
        merge;
    clauses.iter().try_for_each(|clause| {
        let MergeClause { when_token: _, clause_kind: _, predicate: _, action } = clause;
        let before = "write conditions before then: when matched and …";
        match action {
            MergeAction::Delete { delete_token: _ } => ControlFlow::Continue(()),
            MergeAction::Update(update) => {
                let MergeUpdateExpr { update_token: _, assignments: _, update_predicate, delete_predicate } =
                    update;
                none(update_predicate, before)?;
                none(delete_predicate, before)
            }
            MergeAction::Insert(insert) => {
                let MergeInsertExpr { insert_token: _, columns: _, kind_token: _, kind: _, insert_predicate } =
                    insert;
                none(insert_predicate, before)
            }
        }
    })
}

/// `create view`.
fn view(view: &CreateView) -> Checked {
    let CreateView {
        or_alter: _,
        or_replace: _,
        materialized: _,
        secure,
        name: _,
        name_before_not_exists: _,
        columns,
        query: _,
        options,
        cluster_by,
        comment: _,
        with_no_schema_binding: _,
        if_not_exists: _,
        temporary: _,
        copy_grants,
        to,
        params,
    } = view;
    absent(secure, "whoever has a session sees all of its views: leave out secure", view)?;
    columns.iter().try_for_each(|column| {
        let ViewColumnDef { name: _, data_type, options } = column;
        absent(data_type, "a column of a view has the type of what is selected: cast it there", column)?;
        absent(options, "a column of a view has no options", column)
    })?;
    let no_options = datafusion::sql::sqlparser::ast::CreateTableOptions::None;
    absent(&(*options != no_options), "a view has no options: leave out with (…)", view)?;
    absent(cluster_by, "a view keeps no rows: leave out cluster by", view)?;
    absent(copy_grants, "there are no grants: leave out copy grants", view)?;
    absent(to, "a view writes no rows: leave out to", view)?;
    absent(params, "a view has no parameters: leave them out", view)
}

/// `create index`.
fn index(index: &CreateIndex) -> Checked {
    // What only matters to how fast an index is: its kind, its order, and what else it holds.
    let CreateIndex {
        name: _,
        table_name: _,
        using: _,
        columns,
        unique,
        concurrently: _,
        if_not_exists: _,
        include: _,
        nulls_distinct,
        with: _,
        predicate: _,
        index_options: _,
        alter_options: _,
    } = index;
    columns.iter().try_for_each(|column| {
        let IndexColumn { column: _, operator_class: _ } = column;
        ControlFlow::Continue(())
    })?;
    let one_null = *unique && *nulls_distinct == Some(false);
    absent(&one_null, "nulls are distinct from each other: leave out nulls not distinct", index)
}

/// `alter table`.
fn alter(alter: &AlterTable) -> Checked {
    let AlterTable {
        name: _,
        if_exists: _,
        only: _,
        operations,
        location,
        on_cluster,
        table_type,
        end_token: _,
    } = alter;
    absent(location, "a table has no location", alter)?;
    absent(on_cluster, "leave out on cluster: a table is in this session", alter)?;
    absent(table_type, "alter table takes a table", alter)?;
    operations.iter().try_for_each(|operation| match operation {
        AlterTableOperation::AddColumn {
            column_keyword: _,
            if_not_exists: _,
            column_def,
            column_position,
        } => {
            absent(column_position, "a new column is the last one: leave out first and after", operation)?;
            added(column_def, operation)
        }
        _ => ControlFlow::Continue(()),
    })
}

/// A column that a table gets later; constraints are said with the table.
fn added(column: &ColumnDef, around: &dyn Spanned) -> Checked {
    self::column(column, around)?;
    column.options.iter().try_for_each(|ColumnOptionDef { name: _, option }| match option {
        ColumnOption::Null | ColumnOption::NotNull | ColumnOption::Default(_) | ColumnOption::Comment(_) => {
            ControlFlow::Continue(())
        }
        _ => refuse("a new column has a type and a default: create unique index makes it unique", around),
    })
}

/// `truncate`.
fn truncate(truncate: &Truncate, around: &Statement) -> Checked {
    let Truncate { table_names, partitions, table: _, if_exists: _, identity, cascade: _, on_cluster } =
        truncate;
    for TruncateTableTarget { name: _, only: _, has_asterisk: _ } in table_names {}
    absent(partitions, "a table has no partitions: delete from t where …", around)?;
    let restarts = matches!(identity, Some(TruncateIdentityOption::Restart));
    absent(&restarts, "truncate restarts no sequence: create or replace it", around)?;
    absent(on_cluster, "leave out on cluster: a table is in this session", around)
}

/// A column of `create table` or `add column`.
fn column(column: &ColumnDef, around: &dyn Spanned) -> Checked {
    let ColumnDef { name: _, data_type: _, options } = column;
    options.iter().try_for_each(|ColumnOptionDef { name: _, option }| match option {
        // What a column is computed of, `create` speaks of.
        ColumnOption::Null
        | ColumnOption::NotNull
        | ColumnOption::Default(_)
        | ColumnOption::Materialized(_)
        | ColumnOption::Comment(_) => ControlFlow::Continue(()),
        ColumnOption::Generated {
            generated_as: _,
            sequence_options: _,
            generation_expr,
            generation_expr_mode: _,
            generated_keyword: _,
        } => match generation_expr {
            Some(_) => ControlFlow::Continue(()),
            None => refuse(COUNTS, around),
        },
        ColumnOption::PrimaryKey(key) => primary(key, around),
        ColumnOption::Unique(key) => unique(key, around),
        ColumnOption::ForeignKey(reference) => foreign(reference, around),
        ColumnOption::Check(check) => self::check(check, around),
        ColumnOption::Collation(_) | ColumnOption::CharacterSet(_) => {
            refuse("texts are UTF-8 and have one order: leave out collate and character set", around)
        }
        ColumnOption::Identity(_) | ColumnOption::DialectSpecific(_) => refuse(COUNTS, around),
        ColumnOption::Ephemeral(_) | ColumnOption::Alias(_) => {
            refuse("a column is not computed of others: make a view that computes it", around)
        }
        ColumnOption::OnUpdate(_) => refuse("on update is not there: set the column in the update", around),
        ColumnOption::OnConflict(_) => refuse("on conflict stands in the insert", around),
        ColumnOption::Options(_)
        | ColumnOption::Policy(_)
        | ColumnOption::Tags(_)
        | ColumnOption::Srid(_)
        | ColumnOption::Invisible => refuse("a column has no such option: leave it out", around),
    })
}

/// A constraint of a table.
fn constraint(constraint: &TableConstraint) -> Checked {
    match constraint {
        TableConstraint::PrimaryKey(key) => primary(key, constraint),
        TableConstraint::Unique(key) => unique(key, constraint),
        TableConstraint::ForeignKey(reference) => foreign(reference, constraint),
        TableConstraint::Check(check) => self::check(check, constraint),
        // An index is a name; others the planner refuses.
        _ => ControlFlow::Continue(()),
    }
}

/// A primary key.
fn primary(key: &PrimaryKeyConstraint, around: &dyn Spanned) -> Checked {
    let PrimaryKeyConstraint {
        name: _,
        index_name: _,
        index_type: _,
        columns: _,
        index_options: _,
        characteristics,
    } = key;
    absent(characteristics, LATER, around)
}

/// A unique constraint.
fn unique(key: &UniqueConstraint, around: &dyn Spanned) -> Checked {
    let UniqueConstraint {
        name: _,
        index_name: _,
        index_type_display: _,
        index_type: _,
        columns: _,
        index_options: _,
        characteristics,
        nulls_distinct,
    } = key;
    absent(characteristics, LATER, around)?;
    let one_null = *nulls_distinct == NullsDistinctOption::NotDistinct;
    absent(&one_null, "nulls are distinct from each other: leave out nulls not distinct", around)
}

/// A foreign key.
fn foreign(reference: &ForeignKeyConstraint, around: &dyn Spanned) -> Checked {
    // What is done to other rows, `create` speaks of.
    let ForeignKeyConstraint {
        name: _,
        index_name: _,
        columns: _,
        foreign_table: _,
        referred_columns: _,
        on_delete: _,
        on_update: _,
        match_kind,
        characteristics,
    } = reference;
    absent(match_kind, "a foreign key with a null refers to nothing: leave out match", around)?;
    absent(characteristics, LATER, around)
}

/// A check constraint.
fn check(check: &CheckConstraint, around: &dyn Spanned) -> Checked {
    let CheckConstraint { name: _, expr: _, enforced } = check;
    absent(&(*enforced == Some(false)), LATER, around)
}
