"""The bundled controllers: scaler, workload controller, exporter and closer. They import only `ebbtide.vocabulary`."""
