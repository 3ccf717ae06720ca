-- SCADr, a small service for short messages (piql.txt, section 8.1.2).
create table users (username varchar(20) primary key, home_town varchar(40), password varchar(40));
create table thoughts (
    owner varchar(20) references users, timestamp int, text varchar(140),
    primary key (owner, timestamp)
);
create table subscriptions (
    owner varchar(20) references users, target varchar(20) references users, approved boolean,
    primary key (owner, target), cardinality limit 100 (owner)
);
create table tags (
    owner varchar(20), timestamp int, word varchar(20),
    primary key (owner, timestamp, word), cardinality limit 20 (owner, timestamp)
);
