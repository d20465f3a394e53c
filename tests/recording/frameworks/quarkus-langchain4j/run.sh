#!/bin/sh
# Quarkus is built before it runs.
set -e
mvn -q -B package
exec java -jar target/quarkus-app/quarkus-run.jar
