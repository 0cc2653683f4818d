"""What the host sees: virtual files, KFD, amdgpu DRM and the doorbells."""
