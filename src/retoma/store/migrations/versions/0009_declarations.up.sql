-- The time that a program declared last: a schedule that still has it follows the next declaration.
alter table retoma.schedules add column declared text;
