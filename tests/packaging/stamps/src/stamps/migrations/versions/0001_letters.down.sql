drop table stamps.letters;
