drop table books.feedback;
drop table books.checkpoints;
drop table books.chapters;
drop table books.sessions;
drop table books.inputs;
