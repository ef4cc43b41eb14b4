import type { INestApplication } from '@nestjs/common';
import { DocumentBuilder, SwaggerModule } from '@nestjs/swagger';
import { documentIdempotency } from 'nestjs-idempotency/swagger';

/** Describes the API at /docs, and as a document for programs at /docs-json. */
export function serveDocs(app: INestApplication): void {
  const config = new DocumentBuilder()
    .setTitle('Payments API')
    .setDescription('Sample of nestjs-idempotency: try it with the token `alice-demo-token`.')
    .setVersion('1.0')
    .addBearerAuth()
    .build();
  const document = () => documentIdempotency(app, () => SwaggerModule.createDocument(app, config));
  SwaggerModule.setup('docs', app, document);
}
