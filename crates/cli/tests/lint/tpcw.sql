-- TPC-W, a shop (piql.txt, section 8.1.1).
create table country (co_id int primary key, co_name varchar(50), unique (co_name), cardinality limit 92 ());
create table author (a_id int primary key, a_fname varchar(20), a_lname varchar(20));
create table address (
    addr_id int primary key, street1 varchar(40), street2 varchar(40), city varchar(30),
    state varchar(20), zip varchar(10), addr_co_id int not null references country
);
create table customer (
    c_uname varchar(20) primary key, c_addr_id int not null references address,
    c_passwd varchar(20), c_fname varchar(15), c_lname varchar(15), c_discount double
);
create table item (
    i_id int primary key, i_a_id int not null references author, i_title varchar(60),
    i_subject varchar(60), i_pub_date date, i_related1 int, i_related2 int, i_related3 int, i_related4 int,
    i_related5 int, i_stock int, i_cost decimal(15, 2), cardinality limit 1000 (i_a_id)
);
create table orders (
    o_id int primary key, o_c_uname varchar(20) not null references customer,
    o_date_time timestamp not null, o_total decimal(15, 2), o_bill_addr_id int not null references address,
    o_ship_addr_id int not null references address, o_status varchar(15)
);
create table cc_xact (cx_o_id int primary key references orders, cx_type varchar(10));
create table order_line (
    ol_o_id int references orders, ol_id int, ol_i_id int not null references item,
    ol_qty int, primary key (ol_o_id, ol_id), cardinality limit 100 (ol_o_id)
);
create table shopping_cart_line (
    scl_c_uname varchar(20), scl_i_id int not null references item, scl_qty int,
    primary key (scl_c_uname, scl_i_id), cardinality limit 100 (scl_c_uname)
);
