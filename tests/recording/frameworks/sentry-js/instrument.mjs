// Sentry's own set-up, which also gives its spans to an OTLP exporter.
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import * as Sentry from "@sentry/node";

Sentry.init({
  dsn: "http://none@127.0.0.1:9/1",
  tracesSampleRate: 1,
  openTelemetrySpanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter())],
  integrations: [Sentry.openAIIntegration({ recordInputs: true, recordOutputs: true })],
});
