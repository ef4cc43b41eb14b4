import multipart from '@fastify/multipart';
import type { NestFastifyApplication } from '@nestjs/platform-fastify';

export async function parseForms(app: NestFastifyApplication) {
  // #region register
  await app.register(multipart, { attachFieldsToBody: true });
  // #endregion
}
