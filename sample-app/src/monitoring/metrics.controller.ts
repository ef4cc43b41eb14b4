import { Controller, Get, Header } from '@nestjs/common';
import { ApiExcludeController } from '@nestjs/swagger';
import { register } from 'prom-client';

/** For a Prometheus, which has no token: the metrics contain no key, no caller and no body. */
@Controller('metrics')
@ApiExcludeController()
export class MetricsController {
  @Get()
  @Header('Content-Type', register.contentType)
  read(): Promise<string> {
    return register.metrics();
  }
}
