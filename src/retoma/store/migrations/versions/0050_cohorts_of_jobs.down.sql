-- Jobs of a batch that was re-planned run under its newest configuration after this.
alter table retoma.jobs drop column cohort;
