drop table retoma.alert_deliveries;
drop table retoma.alerts;
