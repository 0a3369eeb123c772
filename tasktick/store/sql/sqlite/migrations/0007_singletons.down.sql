-- Nothing is lost: who does what for all is of running nodes alone.
DROP TABLE singletons;
