// swift-tools-version:5.7
import PackageDescription

// CRiffle is the C library: put libriffle.h beside its module map, and the archive on the linker's path (README.md).
let package = Package(
    name: "Riffle",
    platforms: [.iOS(.v14)],
    products: [.library(name: "Riffle", targets: ["Riffle"])],
    targets: [
        .systemLibrary(name: "CRiffle"),
        .target(name: "Riffle", dependencies: ["CRiffle"]),
    ]
)
