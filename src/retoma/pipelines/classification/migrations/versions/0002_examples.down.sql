drop table classification.vectors;
drop table classification.refinements;
drop table classification.examples;
