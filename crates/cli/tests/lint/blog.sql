--
-- PostgreSQL database dump
--

\restrict 2ee9xW1kJYVBpl

SET statement_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);

CREATE EXTENSION IF NOT EXISTS citext WITH SCHEMA public;
COMMENT ON EXTENSION citext IS 'data type; for case-insensitive strings';

CREATE TYPE public.mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN public.slug AS character varying(60) CHECK (VALUE ~ '^[a-z;]+$');

CREATE FUNCTION public.touch() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    NEW.updated := now(); -- a semicolon; in a body
    RETURN NEW;
END;
$$;

CREATE TABLE public.users (
    id bigint NOT NULL,
    name text NOT NULL,
    mail public.citext,
    mood public.mood DEFAULT 'ok'::public.mood NOT NULL,
    created timestamp with time zone DEFAULT now() NOT NULL,
    settings jsonb DEFAULT '{}'::jsonb,
    CONSTRAINT named CHECK ((length(name) > 0))
);
ALTER TABLE public.users OWNER TO blog;

CREATE SEQUENCE public.users_id_seq START WITH 1 INCREMENT BY 1 NO MINVALUE NO MAXVALUE CACHE 1;
ALTER TABLE ONLY public.users ALTER COLUMN id SET DEFAULT nextval('public.users_id_seq'::regclass);

-- cardinality limit 200 (post_id)
CREATE TABLE public.comments (
    id serial,
    post_id integer NOT NULL,
    author bigint,
    said text,
    at timestamp without time zone NOT NULL
);

CREATE TABLE public.posts (
    id integer GENERATED ALWAYS AS IDENTITY,
    author bigint NOT NULL,
    slug public.slug,
    title character varying(200) NOT NULL,
    at timestamp with time zone NOT NULL,
    price numeric(10,2),
    tags text[],
    token uuid DEFAULT gen_random_uuid()
);

CREATE TABLE public.visits (post_id integer, at timestamp without time zone);

COPY public.visits (post_id, at) FROM stdin;
1	2020-01-01 00:00:00; not a statement
\.

ALTER TABLE ONLY public.users ADD CONSTRAINT users_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.posts ADD CONSTRAINT posts_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.comments ADD CONSTRAINT comments_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.posts ADD CONSTRAINT posts_slug_key UNIQUE (slug);
CREATE INDEX posts_by_author ON public.posts USING btree (author, at DESC);
CREATE INDEX comments_by_post ON public.comments (post_id, at);
CREATE INDEX posts_of_now ON public.posts (at) WHERE (price IS NULL);
CREATE INDEX posts_lower ON public.posts (lower(title));
ALTER TABLE ONLY public.posts
    ADD CONSTRAINT posts_author_fkey FOREIGN KEY (author) REFERENCES public.users(id) ON DELETE CASCADE;
ALTER TABLE ONLY public.comments
    ADD CONSTRAINT comments_post_fkey FOREIGN KEY (post_id) REFERENCES public.posts(id);
CREATE TRIGGER touch BEFORE UPDATE ON public.posts FOR EACH ROW EXECUTE FUNCTION public.touch();
GRANT SELECT ON TABLE public.users TO reader;

\unrestrict 2ee9xW1kJYVBpl
