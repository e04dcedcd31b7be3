"""hard_suite.py SEED NX NY FOLDER: systems on which common preconditioners fail, one raw file each (NAME.stencil).

"STENCIL1"; dimension 2, NX, NY, 1, flags (bit 0: singular), 0 as 32-bit integers; 16 characters of the name; then
center, east, north and b as little-endian doubles. docs/benchmarks/hard-suite.md defines the systems. Draws follow each
other: a system depends on the seed, the size and its place in this file. Rectangular grids: stretched takes its spacing per
direction; the disc has radius 100/512 min(NX, NY) about (NX/2, NY/2).
"""
import numpy as np, struct, os, sys
SEED,NX,NY,OUT=int(sys.argv[1]),int(sys.argv[2]),int(sys.argv[3]),sys.argv[4]
rng=np.random.default_rng(SEED)
def smooth(n,m,c):
    f=np.fft.rfft2(rng.standard_normal((m,n))); ky=np.fft.fftfreq(m)[:,None]; kx=np.fft.rfftfreq(n)[None,:]
    f*=np.exp(-2*(np.pi*c)**2*(kx**2+ky**2)); g=np.fft.irfft2(f,s=(m,n)); return g/g.std()
def write(name,fx,fy,mass,wet=None,bc=0):
    m,n=mass.shape
    ax=-fx.copy(); ay=-fy.copy(); ax[:,-1]=0; ay[-1,:]=0
    if wet is not None:
        ax[:,:-1]*=wet[:,:-1]&wet[:,1:]; ay[:-1,:]*=wet[:-1,:]&wet[1:,:]
    d=mass.copy()
    d-=ax; d[:,1:]-=ax[:,:-1]; d-=ay; d[1:,:]-=ay[:-1,:]
    if bc:
        d[:,0]+=fx[:,0]; d[:,-1]+=fx[:,-1]; d[0,:]+=fy[0,:]; d[-1,:]+=fy[-1,:]
    b=rng.standard_normal((m,n)); b=b-b.mean()
    sing=(mass.max()==0 and not bc)
    if wet is not None: b[~wet]=0; d[~wet]=np.where(d[~wet]==0,1,d[~wet])
    dd=d==0; d[dd]=1; b[dd]=0
    with open(f'{OUT}/{name}.stencil','wb') as f:
        f.write(b'STENCIL1'+struct.pack('<6i',2,n,m,1,1 if sing else 0,0)+name.encode()[:15].ljust(16,b'\0'))
        for a in (d,ax,ay,b): f.write(np.ascontiguousarray(a,dtype='<f8').tobytes())
def faces(k):
    fx=k.copy(); fy=k.copy()
    fx[:,:-1]=2*k[:,:-1]*k[:,1:]/(k[:,:-1]+k[:,1:]); fy[:-1]=2*k[:-1]*k[1:]/(k[:-1]+k[1:])
    return fx,fy
os.makedirs(OUT,exist_ok=True)
one=np.ones((NY,NX)); Z=np.zeros((NY,NX))
write('poisson',one,one,Z,bc=1)
for a in (10,100,1000): write(f'aniso{a}',a*one,one,Z,bc=1)
def spacing(N):
    y=np.linspace(-1,1,N); dz=1-0.98*np.cos(np.pi*y/2)**2; return dz/dz.mean()
dx,dy=spacing(NX),spacing(NY)
fx=np.outer(dy,1/dx); fy=np.outer(1/dy,dx); write('stretched',fx,fy,Z,bc=1)
I,J=np.meshgrid(np.arange(NX),np.arange(NY)); M=min(NX,NY)
k=np.where(((I//16)+(J//16))%2==0,1.,1000.); write('checker16',*faces(k),Z,bc=1)
k=np.exp(2.3*smooth(NX,NY,6)); write('lognormal',*faces(k),Z,bc=1)
k=10**(3*rng.random((NY,NX))); write('whitenoise',*faces(k),Z,bc=1)
k=np.where((J//3)%4==0,1000.,1.); write('layers3',*faces(k),Z,bc=1)
k=np.where(smooth(NX,NY,5)>0.3,1e6,1.); write('channels1e6',*faces(k),Z,bc=1)
k=np.where((I-NX/2)**2+(J-NY/2)**2<(100*M/512)**2,1e6,1.); write('disc1e6',*faces(k),Z,bc=1)
wet=rng.random((NY,NX))>=.1; write('land10',one,one,1e-6*one,wet)
wet=rng.random((NY,NX))>=.3; write('land30',one,one,1e-6*one,wet)
wet=smooth(NX,NY,4)>-0.2; write('lakes',one,one,1e-6*one,wet)
wet=~(((I%16==0)&(J%64!=5))|((J%16==0)&(I%64!=9))); write('maze',one,one,1e-6*one,wet)
k=np.exp(2.3*smooth(NX,NY,6)); write('neumann_logn',*faces(k),Z)
