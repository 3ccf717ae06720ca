-- name: home
select c_fname, c_lname from customer where c_uname = ?;

-- name: new_products
select i_id, i_title, a_fname, a_lname from item, author
where i_a_id = a_id and i_subject like [token] ? order by i_pub_date desc, i_title limit 50;

-- name: product_detail
select * from item, author where a_id = i_a_id and i_id = ?;

-- name: search_title
select i_id, i_title, a_fname, a_lname from item, author
where i_a_id = a_id and i_title like [token] ? order by i_title limit 50;

-- name: cart
select * from shopping_cart_line join item on scl_i_id = i_id where scl_c_uname = ?;

-- name: buy_request
select * from customer join address on c_addr_id = addr_id join country on addr_co_id = co_id where c_uname = ?;

-- name: last_order
select * from orders where o_c_uname = ? order by o_date_time desc limit 1;

-- name: order_lines
select * from order_line join item on ol_i_id = i_id where ol_o_id = ?;

-- name: sales_report
select count(*) from order_line allow unbounded 'once a night, on a replica';

-- name: best_sellers
select i_id, i_title, sum(ol_qty) as sold
from (select o_id from orders order by o_date_time desc limit 3333) o
join order_line on ol_o_id = o.o_id join item on ol_i_id = i_id
where i_subject = ? group by i_id, i_title order by sold desc limit 50;
