import { Controller, Post } from '@nestjs/common';
import { Idempotent } from 'nestjs-idempotency';
import { Album } from './album.js';

/** On Fastify, where the forms are parsed before any handler. */
@Controller('photos')
export class FormsController {
  constructor(private readonly album: Album) {}

  @Post()
  @Idempotent()
  upload() {
    return this.album.add('a form', 0);
  }

  @Post('parts')
  // #region parts
  @Idempotent({ fingerprint: { exclude: ['sentAt', 'photo.filename'] } })
  // #endregion
  uploadParts() {
    return this.album.add('a form', 0);
  }
}
