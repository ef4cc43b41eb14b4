import { NestFactory } from '@nestjs/core';
import { AppModule, setUp } from './app.module.js';

async function bootstrap() {
  const app = await NestFactory.create(AppModule, { rawBody: true });
  setUp(app);
  await app.listen(process.env.PORT ?? 3000);
}
void bootstrap();
